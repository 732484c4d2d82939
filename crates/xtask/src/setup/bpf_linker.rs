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

/// Release to install; any release of the same minor version is accepted.
const VERSION: &str = "0.13.0";
/// Folder of Debian's LLVM, and the environment variable that passes it to the build.
const LLVM_PREFIX: &str = "/usr/lib/llvm-22";
const LLVM_PREFIX_VARIABLE: &str = "LLVM_PREFIX";
const PACKAGES: [Package; 5] = [
    Package {
        name: "llvm-22-dev",
        why: "development files of LLVM, which bpf-linker contains",
    },
    Package {
        name: "libpolly-22-dev",
        why: "a library that LLVM lists for linking",
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
        why: "the C++ library and the linker for LLVM",
    },
];

/// Version of the bpf-linker on `PATH`, if it runs and has the required minor version.
pub fn find() -> Option<String> {
    let output = Command::new("bpf-linker").arg("--version").output().ok()?;
    parse(&String::from_utf8_lossy(&output.stdout)).map(str::to_owned)
}

/// Builds it from crates.io unless [`find`] succeeds.
///
/// # Errors
/// If LLVM's packages cannot be installed or the build fails; the message names what is missing.
pub fn ensure() -> Result<()> {
    if find().is_some() {
        return Ok(());
    }
    let llvm = env::var(LLVM_PREFIX_VARIABLE).unwrap_or_else(|_| LLVM_PREFIX.to_owned());
    if llvm == LLVM_PREFIX {
        debian::ensure(&PACKAGES).with_context(|| {
            format!(
                "bpf-linker {VERSION} needs the development files of LLVM {LLVM}: use a Debian release that has them, such as 12 \
                 with security updates, or apt.llvm.org, or `cargo binstall bpf-linker`"
            )
        })?;
    }
    if !Path::new(&llvm).is_dir() {
        bail!("{LLVM_PREFIX_VARIABLE} is {llvm}, but this folder does not exist");
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

/// Parses `bpf-linker 0.13.0`; `None` for another minor version.
fn parse(text: &str) -> Option<&str> {
    cargo_tool::same_minor(text, VERSION)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_the_same_minor_version_is_accepted() {
        assert_eq!(parse("bpf-linker 0.13.0\n"), Some("0.13.0"));
        assert_eq!(parse("bpf-linker 0.13.4"), Some("0.13.4"));
        assert_eq!(parse("bpf-linker 0.9.15"), None);
        assert_eq!(parse("bpf-linker 1.13.0"), None);
        assert_eq!(parse("error: cannot open libLLVM.so.22.1"), None);
        assert_eq!(parse(""), None);
    }
}
