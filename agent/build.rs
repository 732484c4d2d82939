//! Builds the kernel programs and hands them to the agent; without their toolchain, a procfs-only agent.
//!
//! `HEADROOM_BPF`: `auto` (default) builds them when it can and warns when it cannot, `off` does not try, `require`
//! fails without them. `HEADROOM_BPF_TOOLCHAIN` names another rustup toolchain than `nightly`, for instance one linked
//! to Debian's `rustc-web`; unstable features are unlocked for it.

use std::{
    env,
    path::{Path, PathBuf},
    process::Command,
};

use anyhow::{Context, Result, bail};
use aya_build::{Package, Toolchain};

const WISH: &str = "HEADROOM_BPF";
const TOOLCHAIN: &str = "HEADROOM_BPF_TOOLCHAIN";
/// Set for the child that compiles: cargo inside must be quiet, or each of its lines becomes a warning of ours.
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
    let toolchain = env::var(TOOLCHAIN).ok();
    if env::var_os(STAGE).is_some() {
        return compile(toolchain.as_deref());
    }
    println!("cargo::rustc-check-cfg=cfg(headroom_bpf)");
    println!("cargo::rerun-if-changed=build.rs");
    for name in [WISH, TOOLCHAIN, "CARGO_HOME", "RUSTUP_HOME"] {
        println!("cargo::rerun-if-env-changed={name}");
    }

    let wish = wish()?;
    let obstacle = if wish == Wish::Off {
        Some(format!("{WISH}=off"))
    } else if let Some(missing) = missing(toolchain.as_deref()) {
        Some(format!("{missing}; {HOW}"))
    } else {
        compile_in_child(toolchain.is_some())?
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

/// What the kernel programs cannot be built without and is not there; also tells cargo where it would appear.
fn missing(toolchain: Option<&str>) -> Option<String> {
    let name = toolchain.unwrap_or("nightly");
    let sysroot = sysroot(name);
    let sources = sysroot
        .as_ref()
        .map(|root| root.join("lib/rustlib/src/rust/library/core/Cargo.toml"));
    let linker = env::split_paths(&env::var_os("PATH").unwrap_or_default())
        .map(|folder| folder.join(LINKER))
        .find(|path| path.is_file());

    // A path that does not exist would count as changed at every build, so its folder is watched instead: rustup
    // keeps one small file per toolchain and a list of components in each, cargo installs into one folder.
    watch(sysroot.as_ref().map(|root| root.join("lib/rustlib/components")));
    watch(home("RUSTUP_HOME", ".rustup").map(|root| root.join("update-hashes")));
    watch(
        linker
            .clone()
            .or_else(|| Some(home("CARGO_HOME", ".cargo")?.join("bin"))),
    );

    match (sysroot, sources, linker) {
        (None, ..) => Some(format!("there is no `{name}` toolchain")),
        (_, Some(sources), _) if !sources.is_file() => Some(format!("`{name}` lacks the component rust-src")),
        (.., None) => Some(format!("{LINKER} is not on PATH")),
        (..) => None,
    }
}

fn sysroot(toolchain: &str) -> Option<PathBuf> {
    let has_rustup = Command::new("rustup")
        .arg("--version")
        .output()
        .is_ok_and(|output| output.status.success());
    let mut command = if has_rustup {
        let mut rustup = Command::new("rustup");
        rustup.args(["run", toolchain, "rustc"]);
        rustup
    } else {
        // aya-build then takes the compiler on PATH, too.
        Command::new("rustc")
    };
    let output = command.args(["--print", "sysroot"]).output().ok()?;
    let path = PathBuf::from(String::from_utf8(output.stdout).ok()?.trim());
    (output.status.success() && path.is_dir()).then_some(path)
}

fn home(variable: &str, folder: &str) -> Option<PathBuf> {
    env::var_os(variable)
        .map(PathBuf::from)
        .or_else(|| Some(PathBuf::from(env::var_os("HOME")?).join(folder)))
}

fn watch(path: Option<PathBuf>) {
    if let Some(path) = path.filter(|path| path.exists()) {
        println!("cargo::rerun-if-changed={}", path.display());
    }
}

/// Compiles in a child, because the environment of the cargo inside can only be set for a process of its own.
/// Returns why it did not work, if it did not; the compiler's own words have been passed on by then.
fn compile_in_child(is_custom: bool) -> Result<Option<String>> {
    let this = env::current_exe().context("find this build script")?;
    let mut child = Command::new(this);
    child.env(STAGE, "compile").env("CARGO_TERM_QUIET", "true");
    if is_custom {
        // Lets a released compiler build `core` and use the BPF target.
        child.env("RUSTC_BOOTSTRAP", "1");
    }
    let status = child
        .status()
        .context("start the compilation of the kernel programs")?;
    Ok((!status.success()).then(|| "they do not compile; see above".to_owned()))
}

fn compile(toolchain: Option<&str>) -> Result<()> {
    let root = Path::new(&env::var_os("CARGO_MANIFEST_DIR").context("CARGO_MANIFEST_DIR is not set")?)
        .join("../agent-ebpf")
        .canonicalize()
        .context("find the sources of the kernel programs")?;
    let root_dir = root.to_str().context("the path of the workspace is not UTF-8")?;
    let package = Package {
        name: PACKAGE,
        root_dir,
        no_default_features: false,
        features: &[],
    };
    aya_build::build_ebpf([package], toolchain.map_or(Toolchain::Nightly, Toolchain::Custom))
}
