// Package guard is what a guard in Go includes: the three functions of
// guard/1 as Go functions, and its verdicts.
//
// A guard is a main package for wasip1 with an empty main function and one
// exported function:
//
//	//go:build wasip1
//
//	package main
//
//	import guard "github.com/guardproxy/guardproxy/guards/sdk/go"
//
//	//go:wasmexport guard_check_v1
//	func check() int32 {
//		if name, _ := guard.Get("/call/name"); name == "frob" {
//			return guard.Deny("use grind instead of frob")
//		}
//		return guard.Pass
//	}
//
//	func main() {}
//
// It is built with
//
//	GOOS=wasip1 GOARCH=wasm go build -buildmode=c-shared -trimpath -ldflags="-s -w -buildid=" -o guard.wasm
//
// The host checks every call in a memory of its own: package variables don't
// carry anything from one call to the next.
package guard
