# Shortcuts for cargo and cargo xtask; `just` alone lists the recipes.

_default:
    @just --list --unsorted

# Install the tools that tests and the demo need beyond Rust and git
setup:
    cargo xtask setup

# The demo, on this machine
demo *args:
    cargo xtask demo {{args}}

# Every kind of test; needs root
test *args:
    cargo xtask test {{args}}

# Tests that need neither root nor a control plane
quick:
    cargo test

# Format all sources (the import options need nightly rustfmt)
fmt:
    cargo +nightly fmt --all

# Generate manifests and reference pages
generate:
    cargo xtask generate

# All checks that a change must pass before review
check:
    cargo +nightly fmt --all --check
    cargo clippy --workspace --all-targets -- -D warnings
    cargo xtask generate --check
    cargo xtask deny
    cargo xtask test

# One bench, with its table; `--json` for JSON
bench name *args:
    cargo xtask bench {{name}} {{args}}

# Licences, bans, sources and advisories of dependencies
deny:
    cargo xtask deny

# Search for inputs that break a fuzz target
fuzz *args:
    cargo xtask fuzz {{args}}

# Search for code that no test checks, with cargo-mutants
mutants *args:
    cargo xtask mutants {{args}}

# Long tests, part by part; continues after an interruption
long *args:
    cargo xtask test --long {{args}}
