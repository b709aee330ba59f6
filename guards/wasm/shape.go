package wasm

import (
	"fmt"

	"github.com/guardproxy/guardproxy/guards/wasm/meter"
)

// checkImports holds what a module asks for against what there is. All else
// about its shape is for package meter to say.
func checkImports(info *meter.Info) (hint string, err error) {
	for _, im := range info.Imports {
		want, ok := imports[im.Module][im.Name]
		if !ok || im.Module == meter.HostModule {
			return "a guard may import get, reason and note of " + guardModule + ", and " + wasiModule,
				fmt.Errorf("it imports %s.%s, which does not exist", im.Module, im.Name)
		}
		if have := im.Type.String(); have != spelled(want.sig) {
			return "", fmt.Errorf("it imports %s.%s with the type %s, it is %s", im.Module, im.Name, have, spelled(want.sig))
		}
	}
	return "", nil
}

// spelled writes the type of a hostFunc for people.
func spelled(sig string) string {
	var t meter.FuncType
	into := &t.Params
	for _, c := range sig {
		switch c {
		case 'i':
			*into = append(*into, meter.I32)
		case 'I':
			*into = append(*into, meter.I64)
		case ':':
			into = &t.Results
		}
	}
	return t.String()
}
