package wasm

import (
	"fmt"
	"os"

	"github.com/tetratelabs/wazero"
)

// openCache opens the directory for compiled code, and makes it if needed.
// Its files hold machine code, so nobody else may write there.
func openCache(dir string) (wazero.CompilationCache, error) {
	if err := os.MkdirAll(dir, 0o700); err != nil {
		return nil, fmt.Errorf("make the cache directory: %w", err)
	}
	info, err := os.Stat(dir)
	if err != nil {
		return nil, fmt.Errorf("look at the cache directory: %w", err)
	}
	if info.Mode().Perm()&0o022 != 0 {
		return nil, fmt.Errorf("the cache directory %s can be written by others (mode %v)", dir, info.Mode().Perm())
	}
	cache, err := wazero.NewCompilationCacheWithDir(dir)
	if err != nil {
		return nil, fmt.Errorf("open the cache directory: %w", err)
	}
	return cache, nil
}
