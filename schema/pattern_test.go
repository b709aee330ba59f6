package schema

import "testing"

// A pattern that does not compile is found here, and not by its first user.
func TestPatterns(t *testing.T) {
	if len(patterns) == 0 {
		t.Fatal("no patterns")
	}
	for _, p := range patterns {
		p.compiled()
	}
}
