//! The choice of the toolchain that compiles the kernel programs: the requirements on it, and the order of candidates.
//! Set-up and the agent's build script share this file, so both choose the same toolchain.

use std::{
    env,
    path::{Path, PathBuf},
    process::Command,
};

/// Names the only toolchain to take.
pub(crate) const VARIABLE: &str = "HEADROOM_BPF_TOOLCHAIN";
/// The toolchain that is taken where it will do.
pub(crate) const NIGHTLY: &str = "nightly";
/// The nightly that set-up fetches: later ones may use an LLVM that bpf-linker cannot read.
pub(crate) const PINNED: &str = include_str!("../../../nightly").trim_ascii();
/// The name that set-up gives Debian's compiler.
pub(crate) const DEBIAN: &str = "debian-web";
/// The major release of LLVM that bpf-linker is built with; it reads the bitcode of this one and of older ones.
pub(crate) const LLVM: u32 = 22;

/// What is known of one name.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum ToolchainVerdict {
    /// It will do, and has this LLVM.
    Usable(u32),
    Absent,
    /// A component of it is missing.
    Lacks(&'static str),
    /// Its LLVM is newer than bpf-linker's.
    TooNew(u32),
}

/// The names to try, in this order.
pub(crate) fn candidates() -> Vec<String> {
    match env::var(VARIABLE) {
        Ok(named) if !named.is_empty() => vec![named],
        _ => [NIGHTLY, PINNED, DEBIAN].map(str::to_owned).to_vec(),
    }
}

/// Looks at the toolchain that rustup knows by this name.
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

/// The major release of LLVM in the output of `rustc -vV`.
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
    fn a_toolchain_needs_readable_bitcode_and_the_sources() {
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
    fn a_toolchain_nobody_installed_is_absent() {
        assert_eq!(inspect("headroom-never-installed"), ToolchainVerdict::Absent);
    }

    #[test]
    fn the_pinned_nightly_is_a_dated_one() {
        let date = PINNED.strip_prefix("nightly-");
        assert!(
            date.is_some_and(|date| date.split('-').count() == 3),
            "{PINNED:?}"
        );
    }
}
