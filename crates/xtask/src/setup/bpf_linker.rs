//! Finds or builds bpf-linker, which links rustc's output for the kernel programs into an object that the kernel loads.

use std::{env, path::Path, process::Command};

use anyhow::{Context as _, Result, bail};

use super::{
    cargo_tool,
    debian::{self, Package},
    step,
    toolchain::LLVM,
};
use crate::{terminal::print, workspace};

/// The release that is installed; any of the same minor release will do.
const VERSION: &str = "0.13.0";
/// Where Debian puts that LLVM, and the variable by which the build finds it.
const LLVM_PREFIX: &str = "/usr/lib/llvm-22";
const LLVM_PREFIX_VARIABLE: &str = "LLVM_PREFIX";
const PACKAGES: [Package; 5] = [
    Package {
        name: "llvm-22-dev",
        why: "the LLVM that bpf-linker is made of",
    },
    Package {
        name: "libpolly-22-dev",
        why: "a library that LLVM names among those to link with",
    },
    Package {
        name: "libzstd-dev",
        why: "compression that LLVM links with",
    },
    Package {
        name: "zlib1g-dev",
        why: "compression that LLVM links with",
    },
    Package {
        name: "g++",
        why: "the C++ library and linker that LLVM needs",
    },
];

/// The version of the one on `PATH`, if it runs and is of the release we need.
pub fn find() -> Option<String> {
    let output = Command::new("bpf-linker").arg("--version").output().ok()?;
    parse(&String::from_utf8_lossy(&output.stdout)).map(str::to_owned)
}

/// Builds it from crates.io unless it is there.
///
/// # Errors
/// If LLVM's packages cannot be had or the build fails; the message says what is missing.
pub fn ensure() -> Result<()> {
    if find().is_some() {
        return Ok(());
    }
    let llvm = env::var(LLVM_PREFIX_VARIABLE).unwrap_or_else(|_| LLVM_PREFIX.to_owned());
    if llvm == LLVM_PREFIX {
        debian::ensure(&PACKAGES).with_context(|| {
            format!(
                "bpf-linker {VERSION} needs the development files of LLVM {LLVM}: use a Debian that has them (12 with its \
                 security updates does), or apt.llvm.org, or `cargo binstall bpf-linker`"
            )
        })?;
    }
    if !Path::new(&llvm).is_dir() {
        bail!("{LLVM_PREFIX_VARIABLE} is {llvm}, and there is no such folder");
    }
    print(format!(
        "Building bpf-linker {VERSION}, which links the kernel programs (once; about 2 min)."
    ));
    let mut cargo = Command::new("cargo");
    cargo
        .env(LLVM_PREFIX_VARIABLE, llvm)
        .args([
            "install",
            "bpf-linker",
            "--version",
            VERSION,
            "--locked",
            "--no-default-features",
        ])
        .args(["--features", &format!("llvm-{LLVM}"), "--force"])
        .current_dir(workspace::root());
    step::run("bpf-linker", &mut cargo)?;
    find()
        .map(drop)
        .context("bpf-linker is built, but its folder (see its log) is not on PATH")
}

/// The version in `bpf-linker 0.13.0`, if it will do.
fn parse(text: &str) -> Option<&str> {
    cargo_tool::same_minor(text, VERSION)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_the_same_minor_release_will_do() {
        assert_eq!(parse("bpf-linker 0.13.0\n"), Some("0.13.0"));
        assert_eq!(parse("bpf-linker 0.13.4"), Some("0.13.4"));
        assert_eq!(parse("bpf-linker 0.9.15"), None);
        assert_eq!(parse("bpf-linker 1.13.0"), None);
        assert_eq!(parse("error: cannot open libLLVM.so.22.1"), None);
        assert_eq!(parse(""), None);
    }
}
