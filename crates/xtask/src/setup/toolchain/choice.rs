//! Chooses the toolchain that compiles the kernel programs: requirements, and order of candidates. Set-up and the agent's
//! build script share this file, so that both choose the same toolchain.

use std::{
    env,
    path::{Path, PathBuf},
    process::Command,
};

/// Environment variable that names the only candidate.
pub(crate) const VARIABLE: &str = "HEADROOM_BPF_TOOLCHAIN";
/// Preferred toolchain, if it is usable.
pub(crate) const NIGHTLY: &str = "nightly";
/// The nightly that set-up fetches: the LLVM of later ones may be too new for bpf-linker.
pub(crate) const PINNED: &str = include_str!("../../../nightly").trim_ascii();
/// Rustup name of Debian's compiler, linked by set-up.
pub(crate) const DEBIAN: &str = "debian-web";
/// Major version of LLVM in bpf-linker, which reads bitcode of this and older versions.
pub(crate) const LLVM: u32 = 22;

/// Result of checking one candidate.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum ToolchainVerdict {
    /// Usable; the value is its major version of LLVM.
    Usable(u32),
    Absent,
    /// Name of the missing component.
    Lacks(&'static str),
    /// Major version of LLVM, newer than that of bpf-linker.
    TooNew(u32),
}

/// Names of toolchains, in the order of preference.
pub(crate) fn candidates() -> Vec<String> {
    match env::var(VARIABLE) {
        Ok(named) if !named.is_empty() => vec![named],
        _ => [NIGHTLY, PINNED, DEBIAN].map(str::to_owned).to_vec(),
    }
}

/// Checks the toolchain of this name in rustup.
pub(crate) fn inspect(name: &str) -> ToolchainVerdict {
    let rustc = |arguments: &[&str]| {
        let mut rustup = Command::new("rustup");
        let output = rustup.args(["run", name, "rustc"]).args(arguments).output();
        output
            .ok()
            .filter(|output| output.status.success())
            .map(|output| String::from_utf8_lossy(&output.stdout).into_owned())
    };
    let Some(version) = rustc(&["-vV"]) else {
        return ToolchainVerdict::Absent;
    };
    let Some(sysroot) = rustc(&["--print", "sysroot"]) else {
        return ToolchainVerdict::Absent;
    };
    verdict(&version, &PathBuf::from(sysroot.trim()))
}

fn verdict(version: &str, sysroot: &Path) -> ToolchainVerdict {
    let Some(llvm) = llvm_of(version) else {
        return ToolchainVerdict::Absent;
    };
    let core = sysroot.join("lib/rustlib/src/rust/library/core/Cargo.toml");
    if llvm > LLVM {
        ToolchainVerdict::TooNew(llvm)
    } else if core.is_file() {
        ToolchainVerdict::Usable(llvm)
    } else {
        ToolchainVerdict::Lacks("rust-src")
    }
}

/// Parses the major version of LLVM in the output of `rustc -vV`.
fn llvm_of(version: &str) -> Option<u32> {
    version
        .lines()
        .find_map(|line| line.strip_prefix("LLVM version: "))?
        .split('.')
        .next()?
        .parse()
        .ok()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn sysroot(has_sources: bool) -> tempfile::TempDir {
        let folder = tempfile::tempdir().expect("folder");
        if has_sources {
            let core = folder.path().join("lib/rustlib/src/rust/library/core");
            std::fs::create_dir_all(&core).expect("folders");
            std::fs::write(core.join("Cargo.toml"), "").expect("file");
        }
        folder
    }

    #[test]
    fn toolchain_needs_a_readable_llvm_and_the_sources_of_core() {
        let with = sysroot(true);
        let without = sysroot(false);
        let this = format!("release: 1.97.0-nightly\nLLVM version: {LLVM}.1.4\n");
        let next = format!("LLVM version: {}.0.0\n", LLVM + 1);
        assert_eq!(verdict(&this, with.path()), ToolchainVerdict::Usable(LLVM));
        assert_eq!(
            verdict(&this, without.path()),
            ToolchainVerdict::Lacks("rust-src")
        );
        assert_eq!(verdict(&next, with.path()), ToolchainVerdict::TooNew(LLVM + 1));
        assert_eq!(verdict("rustc 1.97.0", with.path()), ToolchainVerdict::Absent);
    }

    #[test]
    fn toolchain_that_is_not_installed_is_absent() {
        assert_eq!(inspect("headroom-never-installed"), ToolchainVerdict::Absent);
    }

    #[test]
    fn pinned_nightly_has_a_date() {
        let date = PINNED.strip_prefix("nightly-");
        assert!(
            date.is_some_and(|date| date.split('-').count() == 3),
            "{PINNED:?}"
        );
    }
}
