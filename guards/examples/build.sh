#!/bin/sh
# Builds the module of one bundled guard: build.sh NAME, in this directory.
# Called by go generate (examples.go). The same toolchain builds the same bytes,
# so each language has one version; without it the committed module stays, and
# that is said. With toolchains in GUARDPROXY_REQUIRE that is an error.
set -eu
name=$1

# missing PROGRAM VERSION PACKAGES
missing() {
	echo "guards/examples: $name is not built again: needs $1 $2 ($3); the committed module stays" >&2
	case ",${GUARDPROXY_REQUIRE:-}," in *,toolchains,*) exit 1 ;; esac
	exit 0
}

if [ -f "$name/$name.c" ]; then
	clang-14 --version 2>/dev/null | grep -q 'clang version 14\.0\.6' && wasm-ld-14 --version >/dev/null 2>&1 ||
		missing clang 14.0.6 "Debian 12: apt install clang-14 lld-14"
	clang-14 --target=wasm32 -std=c11 -O2 -Wall -Wextra -Werror -nostdlib -ffreestanding \
		-Wl,--no-entry,--strip-all,-z,stack-size=65536 -o "$name/$name.wasm" "$name/$name.c"
	chmod 644 "$name/$name.wasm"
elif [ -f "$name/$name.rs" ]; then
	rustc=/usr/bin/rustc
	"$rustc" --version 2>/dev/null | grep -q 'rustc 1\.63\.0' && [ -d "$("$rustc" --print target-libdir --target wasm32-unknown-unknown)" ] && wasm-ld-14 --version >/dev/null 2>&1 ||
		missing rustc 1.63.0 "Debian 12: apt install rustc libstd-rust-dev-wasm32 lld-14"
	"$rustc" --edition 2021 --crate-type cdylib --target wasm32-unknown-unknown -D warnings \
		-C opt-level=s -C panic=abort -C lto -C codegen-units=1 -C strip=symbols -C linker=wasm-ld-14 \
		-C link-arg=-zstack-size=65536 -o "$name/$name.wasm" "$name/$name.rs"
	chmod 644 "$name/$name.wasm"
elif [ -f "$name/$name.ts" ]; then
	# The compiler is not in Debian: from the registry, into a private directory.
	dir=${XDG_CACHE_HOME:-${HOME:-/tmp}/.cache}/guardproxy-assemblyscript-0.28.20
	asc=$dir/node_modules/.bin/asc
	command -v node >/dev/null 2>&1 && command -v npm >/dev/null 2>&1 || missing node 18 "with npm"
	[ -x "$asc" ] || npm install --silent --no-audit --no-fund --no-save --prefix "$dir" assemblyscript@0.28.20 >&2 ||
		missing assemblyscript 0.28.20 "npm install assemblyscript@0.28.20"
	"$asc" "$name/$name.ts" -O3 --runtime stub --use abort= --initialMemory 16 -o "$name/$name.wasm"
elif [ -f "$name/main.go" ]; then
	GOOS=wasip1 GOARCH=wasm GOFLAGS=-buildvcs=false go build -buildmode=c-shared -trimpath -ldflags "-s -w -buildid=" -o "$name/$name.wasm" "./$name"
elif [ -f "$name/$name.wat" ]; then
	wat2wasm --version 2>/dev/null | grep -qx '1\.0\.32' || missing wat2wasm 1.0.32 "Debian 12: apt install wabt"
	wat2wasm "$name/$name.wat" -o "$name/$name.wasm"
else
	echo "guards/examples: no source for $name" >&2
	exit 1
fi
