package cachecheck

import (
	"fmt"
	"strings"

	"github.com/goccy/go-yaml"
)

// ReadPlans reads a list of planned changes, YAML or JSON:
//
//   - label: history.compaction      # or a group: tools.*
//     reason: the harness compacts at 80%
//     session: 5e1f…                 # optional, and so are file and request
//
// Every plan needs a label of the taxonomy and a reason. An unknown key is an
// error with its line.
func ReadPlans(src []byte) (plans []Plan, err error) {
	defer func() {
		if r := recover(); r != nil { // a broken file must not end the program
			plans, err = nil, fmt.Errorf("planned changes: the YAML can't be read")
		}
	}()
	var list []struct {
		Label   string `yaml:"label"`
		Session string `yaml:"session"`
		File    string `yaml:"file"`
		Request int    `yaml:"request"`
		Reason  string `yaml:"reason"`
	}
	if err := yaml.UnmarshalWithOptions(src, &list, yaml.Strict()); err != nil {
		text, _, _ := strings.Cut(strings.TrimSpace(err.Error()), "\n")
		return nil, fmt.Errorf("planned changes: %s", text)
	}
	for i, e := range list {
		p := Plan(e)
		if strings.TrimSpace(p.Reason) == "" {
			return nil, fmt.Errorf("planned change %d: it has no reason", i+1)
		}
		group, all := strings.CutSuffix(p.Label, "*")
		known := false
		for _, l := range taxonomy {
			known = known || l.Break && (string(l.Label) == p.Label || all && strings.HasPrefix(string(l.Label), group))
		}
		if !known {
			return nil, fmt.Errorf("planned change %d: %q is no break of the taxonomy", i+1, clip(p.Label, 60))
		}
		plans = append(plans, p)
	}
	return plans, nil
}
