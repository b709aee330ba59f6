package proxy_test

import (
	"context"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"strings"

	"github.com/guardproxy/guardproxy/guards"
	"github.com/guardproxy/guardproxy/proxy"
)

// noDeploy is a guard in Go.
type noDeploy struct{}

func (noDeploy) Check(_ context.Context, c *guards.Call) guards.Verdict {
	for _, argv := range c.Shell.Argv {
		if argv[0] == "deploy" {
			return guards.Verdict{Decision: guards.Deny, Cause: guards.CausePolicy, Reason: "deploying is for people"}
		}
	}
	return guards.Verdict{}
}

func Example() {
	// The model API: here one that always wants to deploy.
	model := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		io.WriteString(w, `{"type":"message","content":[{"type":"tool_use","id":"toolu_1","name":"Bash","input":{"command":"make && deploy"}}]}`)
	}))
	defer model.Close()

	h, err := proxy.New(proxy.Options{
		Upstreams: []proxy.Upstream{{Name: "model", URL: model.URL}},
		Keys:      [][]byte{[]byte("a key of at least 32 random bytes")},
		Policy:    proxy.Policy{Mode: "workspace-write", Approval: "never"},
		Guards:    guards.Chain{{Name: "no-deploy", Guard: noDeploy{}, Match: guards.Match{Kinds: []string{"shell"}}}},
	})
	if err != nil {
		fmt.Println(err)
		return
	}
	front := httptest.NewServer(h)
	defer front.Close()

	resp, err := http.Post(front.URL+"/v1/messages", "application/json", strings.NewReader(
		`{"messages":[{"role":"user","content":"ship it"}],"tools":[{"name":"Bash","input_schema":{"type":"object","properties":{"command":{"type":"string"}}}}]}`))
	if err != nil {
		fmt.Println(err)
		return
	}
	defer resp.Body.Close()
	body, _ := io.ReadAll(resp.Body)
	command, _, _ := strings.Cut(string(body), " # gp1:")
	fmt.Println(command)
	// Output:
	// {"type":"message","content":[{"type":"tool_use","id":"toolu_1","name":"Bash","input":{"command":"printf '%s\\n' 'guardproxy: not executed. guard no-deploy says: deploying is for people. Take another way to reach the goal within the rules.' >&2; (exit 126)
}
