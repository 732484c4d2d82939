//! Builds the kernel programs and embeds them in the agent. Without their toolchain it builds a procfs-only agent.
//!
//! `HEADROOM_BPF`: `auto` (default) builds them when it can and warns when it cannot, `off` does not try, `require`
//! fails without them. The first usable toolchain on the list of `cargo xtask setup` compiles them;
//! `HEADROOM_BPF_TOOLCHAIN` names another. Unstable features are unlocked for any but `nightly`. `HEADROOM_BPF_ARCH` builds
//! the programs as for another architecture, such as `aarch64`, for tests of them on this one.

#[path = "../crates/xtask/src/setup/toolchain/choice.rs"]
mod choice;

use std::{
    env, fs,
    path::{Path, PathBuf},
    process::Command,
};

use anyhow::{Context, Result, bail};
use aya_build::{Package, Toolchain};

use self::choice::ToolchainVerdict;

const WISH: &str = "HEADROOM_BPF";
const ARCHITECTURE: &str = "HEADROOM_BPF_ARCH";
/// Names the toolchain to the child that compiles: cargo inside must be quiet, or each of its lines becomes a warning
/// of ours.
const STAGE: &str = "HEADROOM_BPF_STAGE";
const PACKAGE: &str = "headroom-agent-ebpf";
const LINKER: &str = "bpf-linker";
const HOW: &str = "`cargo xtask setup` installs what is missing";

#[derive(Clone, Copy, PartialEq, Eq)]
enum Wish {
    Auto,
    Off,
    Require,
}

fn main() -> Result<()> {
    if let Ok(toolchain) = env::var(STAGE) {
        return compile(&toolchain);
    }
    println!("cargo::rustc-check-cfg=cfg(headroom_bpf)");
    println!("cargo::rerun-if-changed=build.rs");
    // aya-build names the folder by its whole path, which is another workspace's where `target/` was copied from there.
    println!("cargo::rerun-if-changed=../agent-ebpf");
    for name in [WISH, ARCHITECTURE, choice::VARIABLE, "CARGO_HOME", "RUSTUP_HOME"] {
        println!("cargo::rerun-if-env-changed={name}");
    }

    let wish = wish()?;
    let obstacle = if wish == Wish::Off {
        Some(format!("{WISH}=off"))
    } else {
        match tools() {
            Ok(toolchain) => compile_in_child(&toolchain)?,
            Err(missing) => Some(format!("{missing}; {HOW}")),
        }
    };
    match obstacle {
        None => println!("cargo::rustc-cfg=headroom_bpf"),
        Some(why) if wish == Wish::Require => bail!("no kernel programs: {why}"),
        Some(why) => {
            println!("cargo::warning=the agent is built without its kernel programs (procfs only): {why}");
        }
    }
    Ok(())
}

fn wish() -> Result<Wish> {
    match env::var(WISH).as_deref() {
        Err(env::VarError::NotPresent) | Ok("auto" | "") => Ok(Wish::Auto),
        Ok("off") => Ok(Wish::Off),
        Ok("require") => Ok(Wish::Require),
        other => bail!("{WISH} is {other:?}; it may be auto, off or require"),
    }
}

/// The toolchain to build the kernel programs with, or what they cannot be built without and is not there; also tells
/// cargo where it would appear.
fn tools() -> Result<String, String> {
    let linker = env::split_paths(&env::var_os("PATH").unwrap_or_default())
        .map(|folder| folder.join(LINKER))
        .find(|path| path.is_file());
    // A path that does not exist would count as changed at every build, so its folder is watched instead: rustup
    // keeps one small file per toolchain and a list of components in each, cargo installs into one folder.
    if let Some(rustup) = home("RUSTUP_HOME", ".rustup") {
        watch(&rustup.join("update-hashes"));
        for toolchain in fs::read_dir(rustup.join("toolchains"))
            .into_iter()
            .flatten()
            .flatten()
        {
            watch(&toolchain.path().join("lib/rustlib/components"));
        }
    }
    if let Some(place) = linker
        .clone()
        .or_else(|| Some(home("CARGO_HOME", ".cargo")?.join("bin")))
    {
        watch(&place);
    }

    let toolchain = toolchain()?;
    if linker.is_none() {
        return Err(format!("{LINKER} is not on PATH"));
    }
    Ok(toolchain)
}

/// The first usable toolchain, or what the preferred one lacks.
fn toolchain() -> Result<String, String> {
    let mut complaints = Vec::new();
    for name in choice::candidates() {
        complaints.push(match choice::inspect(&name) {
            ToolchainVerdict::Usable(_) => return Ok(name),
            ToolchainVerdict::Absent => format!("there is no `{name}` toolchain"),
            ToolchainVerdict::Lacks(component) => format!("`{name}` lacks the component {component}"),
            ToolchainVerdict::TooNew(llvm) => {
                format!(
                    "`{name}` has LLVM {llvm}, and {LINKER} reads up to {}",
                    choice::LLVM
                )
            }
        });
    }
    Err(complaints.swap_remove(0))
}

fn home(variable: &str, folder: &str) -> Option<PathBuf> {
    env::var_os(variable)
        .map(PathBuf::from)
        .or_else(|| Some(PathBuf::from(env::var_os("HOME")?).join(folder)))
}

fn watch(path: &Path) {
    if path.exists() {
        println!("cargo::rerun-if-changed={}", path.display());
    }
}

/// Compiles in a child, because the environment of the cargo inside can only be set for a process of its own.
/// Returns why it did not work, if it did not; the compiler's own words have been passed on by then.
fn compile_in_child(toolchain: &str) -> Result<Option<String>> {
    let this = env::current_exe().context("find this build script")?;
    let mut child = Command::new(this);
    child.env(STAGE, toolchain).env("CARGO_TERM_QUIET", "true");
    if toolchain != choice::NIGHTLY {
        // Lets a released compiler build `core` and use the BPF target.
        child.env("RUSTC_BOOTSTRAP", "1");
    }
    if let Some(architecture) = env::var_os(ARCHITECTURE) {
        child.env("CARGO_CFG_TARGET_ARCH", architecture);
    }
    let status = child
        .status()
        .context("start the compilation of the kernel programs")?;
    Ok((!status.success()).then(|| "they do not compile; see above".to_owned()))
}

fn compile(toolchain: &str) -> Result<()> {
    let root = Path::new(&env::var_os("CARGO_MANIFEST_DIR").context("CARGO_MANIFEST_DIR is not set")?)
        .join("../agent-ebpf")
        .canonicalize()
        .context("find the sources of the kernel programs")?;
    let root_dir = root.to_str().context("the path of the workspace is not UTF-8")?;
    // The bench's programs are an object of their own.
    let features: &[&str] = if env::var_os("CARGO_FEATURE_BENCH").is_some() {
        &["bench"]
    } else {
        &[]
    };
    let package = Package {
        name: PACKAGE,
        root_dir,
        no_default_features: false,
        features,
    };
    let toolchain = match toolchain {
        choice::NIGHTLY => Toolchain::Nightly,
        other => Toolchain::Custom(other),
    };
    aya_build::build_ebpf([package], toolchain)
}
