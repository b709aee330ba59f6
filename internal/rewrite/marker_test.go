package rewrite

import (
	"testing"

	"github.com/guardproxy/guardproxy/internal/wire"
	"github.com/guardproxy/guardproxy/schema"
)

// The marker of a tool that goes is not lost: the last tool before it that
// stays gets it, so that what is left of the marked prefix is still kept.
func TestMarkersOutliveTheirTools(t *testing.T) {
	const (
		kept  = `{"name":"a","input_schema":{}}`
		gone  = `{"name":"up","input_schema":{}}`
		mark  = `{"type":"ephemeral"}`
		other = `{"type":"ephemeral", "ttl":"1h"}`
		goneM = `{"cache_control":` + mark + `,"name":"up"}`
		goneO = `{"name":"more","cache_control":` + other + `}`
		keptM = `{"name":"a","input_schema":{},"cache_control":` + mark + `}`
		keptO = `{"name":"a","input_schema":{},"cache_control":` + other + `}`
	)
	for name, c := range map[string]struct{ in, want string }{
		"on the last tool":            {kept + "," + goneM, keptM},
		"in the middle":               {kept + ", " + goneM + ", " + kept, keptM + ", " + kept},
		"without a marker":            {kept + "," + gone, kept},
		"the first tool":              {goneM + "," + kept, kept},
		"the only tool":               {goneM, ``},
		"over one that goes":          {kept + "," + gone + "," + goneM, keptM},
		"two that go: the later one":  {kept + "," + goneM + "," + goneO, keptO},
		"the heir has its own":        {keptO + "," + goneM, keptO},
		"the heir loses a field":      {`{"name":"b","input_schema":{"properties":{"x":{},"f":{}}}},` + goneM, `{"name":"b","input_schema":{"properties":{"x":{}}},"cache_control":` + mark + `}`},
		"an odd spelling":             {kept + ` , {"cache\u005fcontrol" : ` + mark + ` , "name":"up" }`, `{"name":"a","input_schema":{},"cache\u005fcontrol" : ` + mark + `}`},
		"a hosted tool without parts": {`{},` + goneM, `{}`},
	} {
		t.Run(name, func(t *testing.T) {
			n := NewNarrower(schema.Rules{Tools: map[string][]schema.Field{"b": {{Name: "f"}}}, Drop: []string{"up", "more"}}, Options{})
			body := []byte(`{"tools":[` + c.in + `],"messages":[]}`)
			q, err := wire.Read(wire.Route{Dialect: wire.Messages}, body, nil)
			if err != nil {
				t.Fatal(err)
			}
			got := Apply(q, body, n, nil)
			if !subsequence(got.Body, body) {
				t.Errorf("not a deletion: %s", got.Body)
			}
			if want := `{"tools":[` + c.want + `],"messages":[]}`; string(got.Body) != want {
				t.Fatalf("got  %s\nwant %s", got.Body, want)
			}
			q, err = wire.Read(wire.Route{Dialect: wire.Messages}, got.Body, nil)
			if err != nil {
				t.Fatal(err)
			}
			if again := Apply(q, got.Body, n, nil); string(again.Body) != string(got.Body) {
				t.Fatalf("again: %s", again.Body)
			}
		})
	}
}
