# A thin front over cargo and cargo xtask; `just` alone lists the recipes.

_default:
    @just --list --unsorted

# Get what tests and demo need beyond Rust and git
setup:
    cargo xtask setup

# The story, on this machine
demo *args:
    cargo xtask demo {{args}}

# Every kind of test; root
test *args:
    cargo xtask test {{args}}

# What runs anywhere, without root or control plane
quick:
    cargo test

# Format all sources (the import options need nightly rustfmt)
fmt:
    cargo +nightly fmt --all

# Write the files that follow from declarations
generate:
    cargo xtask generate

# What a change must pass before review
check:
    cargo +nightly fmt --all --check
    cargo clippy --workspace --all-targets -- -D warnings
    cargo xtask generate --check
    cargo xtask deny
    cargo xtask test

# One bench, with its table; `--json` for machines
bench name *args:
    cargo xtask bench {{name}} {{args}}

# Licences, bans, duplicates and advisories of the dependency tree
deny:
    cargo xtask deny

# Inputs that break what reads them
fuzz *args:
    cargo xtask fuzz {{args}}

# Rules that no test holds
mutants *paths:
    cargo xtask mutants {{paths}}

# What soaks or measures for minutes, part by part; goes on where it was ended
long *args:
    cargo xtask test --long {{args}}
