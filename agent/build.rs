//! Builds the kernel programs and embeds them in the agent. Without their toolchain it builds a procfs-only agent.
//!
//! `HEADROOM_BPF` is `auto` (default: build them if possible, else warn), `off` (do not build them) or `require` (fail without
//! them). The first usable toolchain on the list of `cargo xtask setup` compiles them; `HEADROOM_BPF_TOOLCHAIN` names
//! another. Unstable features are unlocked for all toolchains but `nightly`. `HEADROOM_BPF_ARCH` builds the programs for
//! another architecture, such as `aarch64`, for tests.

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

const MODE: &str = "HEADROOM_BPF";
const ARCHITECTURE: &str = "HEADROOM_BPF_ARCH";
/// Names the toolchain to the child that compiles. The child's cargo runs quietly: each of its lines would become a warning of
/// this build.
const STAGE: &str = "HEADROOM_BPF_STAGE";
const PACKAGE: &str = "headroom-agent-ebpf";
const LINKER: &str = "bpf-linker";
const REMEDY: &str = "`cargo xtask setup` installs what is missing";

#[derive(Clone, Copy, PartialEq, Eq)]
enum BpfMode {
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
    // aya-build prints the absolute path of the folder, which is wrong if `target/` was copied from another workspace.
    println!("cargo::rerun-if-changed=../agent-ebpf");
    for name in [MODE, ARCHITECTURE, choice::VARIABLE, "CARGO_HOME", "RUSTUP_HOME"] {
        println!("cargo::rerun-if-env-changed={name}");
    }

    let mode = bpf_mode()?;
    let obstacle = if mode == BpfMode::Off {
        Some(format!("{MODE}=off"))
    } else {
        match tools() {
            Ok(toolchain) => compile_in_child(&toolchain)?,
            Err(missing) => Some(format!("{missing}; {REMEDY}")),
        }
    };
    match obstacle {
        None => println!("cargo::rustc-cfg=headroom_bpf"),
        Some(why) if mode == BpfMode::Require => bail!("no kernel programs: {why}"),
        Some(why) => {
            println!("cargo::warning=the agent is built without its kernel programs (procfs only): {why}");
        }
    }
    Ok(())
}

fn bpf_mode() -> Result<BpfMode> {
    match env::var(MODE).as_deref() {
        Err(env::VarError::NotPresent) | Ok("auto" | "") => Ok(BpfMode::Auto),
        Ok("off") => Ok(BpfMode::Off),
        Ok("require") => Ok(BpfMode::Require),
        other => bail!("{MODE} is {other:?}; it may be auto, off or require"),
    }
}

/// The toolchain for the kernel programs, or the missing tool. Also makes cargo watch the folders in which a missing tool would
/// appear.
fn tools() -> Result<String, String> {
    let linker = env::split_paths(&env::var_os("PATH").unwrap_or_default())
        .map(|folder| folder.join(LINKER))
        .find(|path| path.is_file());
    // A path that does not exist counts as changed at every build, so its folder is watched instead: rustup keeps one
    // small file per toolchain and a list of components in each, and cargo installs into one folder.
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

/// The first usable toolchain, or the reason why the preferred one is not usable.
fn toolchain() -> Result<String, String> {
    let mut reasons = Vec::new();
    for name in choice::candidates() {
        reasons.push(match choice::inspect(&name) {
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
    Err(reasons.swap_remove(0))
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

/// Compiles in a child process, which has the environment that the inner cargo needs. Returns the reason of a failure; the
/// compiler's output has been printed by then.
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
