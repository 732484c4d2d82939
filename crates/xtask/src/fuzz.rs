//! `cargo xtask fuzz`: searches for inputs that break a fuzz target, starting from the inputs in its corpus.

use std::{fs, path::PathBuf, time::Duration};

use anyhow::{Context as _, Result, bail, ensure};
use clap::Args;

use crate::{
    duration,
    setup::{self, Item, cargo_tool::FUZZ, toolchain::Toolchain},
    terminal::print,
    workspace,
};

/// Folder of the fuzz crate, relative to the workspace root.
const FOLDER: &str = "tests/fuzz";
/// An input that needs more time is a finding, in seconds.
const SLOW_S: u32 = 10;
/// An input that needs more memory is a finding, in MiB.
const LARGE_MIB: u32 = 1024;

// The arguments of `cargo xtask fuzz`. A doc comment would be its help text.
#[derive(Debug, Clone, Args)]
pub struct Fuzz {
    /// Fuzz target: a file name in tests/fuzz/fuzz_targets without its extension. Without one, all targets run in turn.
    target: Option<String>,
    /// Time for each target, such as `90s` or `10m`.
    #[arg(long = "for", value_name = "TIME", value_parser = duration::parse, default_value = "10m")]
    lasts: Duration,
    /// Afterwards, remove inputs from the corpus that add no coverage.
    #[arg(long)]
    minimize: bool,
}

impl Fuzz {
    /// Installs the tools, builds the targets and runs them.
    ///
    /// # Errors
    /// If the target is unknown, a tool cannot be installed, a build fails, or an input makes a target panic.
    pub fn run(&self) -> Result<()> {
        let targets = self.targets()?;
        setup::run(&[Item::Nightly, Item::CargoFuzz])?.check_all()?;
        let toolchain = Toolchain::find().context("the nightly toolchain no longer exists")?;
        let mut broken = Vec::new();
        for target in targets {
            print(format!("\n== fuzz {target}, for {} s", self.lasts.as_secs()));
            build(&toolchain, &target)?;
            if !run_target(&toolchain, &target, self.lasts)? {
                broken.push(target);
            } else if self.minimize {
                minimize(&toolchain, &target)?;
            }
        }
        if !broken.is_empty() {
            bail!(
                "inputs that break {} are in {FOLDER}/artifacts; fix the code and keep the inputs in {FOLDER}/corpus",
                broken.join(", ")
            );
        }
        Ok(())
    }

    fn targets(&self) -> Result<Vec<String>> {
        let all = names()?;
        let Some(target) = &self.target else {
            return Ok(all);
        };
        ensure!(
            all.contains(target),
            "there is no fuzz target {target}; targets: {}",
            all.join(", ")
        );
        Ok(vec![target.clone()])
    }
}

fn names() -> Result<Vec<String>> {
    let folder = workspace::root().join(FOLDER).join("fuzz_targets");
    let entries = fs::read_dir(&folder).with_context(|| format!("read {}", folder.display()))?;
    let mut names = Vec::new();
    for entry in entries {
        let path: PathBuf = entry?.path();
        names.extend(path.file_stem().map(|stem| stem.to_string_lossy().into_owned()));
    }
    names.sort();
    Ok(names)
}

/// Builds a target separately, so that a compile error is not taken for a finding.
fn build(toolchain: &Toolchain, target: &str) -> Result<()> {
    let status = cargo_fuzz(toolchain, "build", target)
        .status()
        .context("start cargo fuzz")?;
    ensure!(
        status.success(),
        "fuzz target {target} could not be built ({status})"
    );
    Ok(())
}

/// Returns false if an input makes the target panic.
fn run_target(toolchain: &Toolchain, target: &str, lasts: Duration) -> Result<bool> {
    let options = [
        format!("-max_total_time={}", lasts.as_secs()),
        format!("-timeout={SLOW_S}"),
        format!("-rss_limit_mb={LARGE_MIB}"),
        "-print_final_stats=1".to_owned(),
    ];
    let mut cargo = cargo_fuzz(toolchain, "run", target);
    Ok(cargo
        .arg("--")
        .args(options)
        .status()
        .context("start cargo fuzz")?
        .success())
}

/// Removes inputs from the corpus that add no coverage.
fn minimize(toolchain: &Toolchain, target: &str) -> Result<()> {
    let status = cargo_fuzz(toolchain, "cmin", target)
        .status()
        .context("start cargo fuzz")?;
    ensure!(
        status.success(),
        "the corpus of {target} could not be minimized ({status})"
    );
    Ok(())
}

fn cargo_fuzz(toolchain: &Toolchain, command: &str, target: &str) -> std::process::Command {
    let mut cargo = workspace::cargo_of(toolchain.name());
    cargo
        .args([FUZZ.subcommand(), command, "--fuzz-dir", FOLDER])
        // The fuzzed code forbids `unsafe`, so an address sanitizer would find nothing.
        .args(["--sanitizer", "none", target]);
    cargo
}

#[cfg(test)]
mod tests {
    use super::*;

    fn fuzz(target: Option<&str>) -> Fuzz {
        Fuzz {
            target: target.map(str::to_owned),
            lasts: Duration::from_secs(1),
            minimize: false,
        }
    }

    #[test]
    fn unknown_target_error_lists_all_targets() {
        let all = fuzz(None).targets().expect("targets");
        assert!(all.len() > 3);
        for target in &all {
            assert_eq!(fuzz(Some(target)).targets().expect("one"), [target.as_str()]);
        }
        let error = fuzz(Some("nothing")).targets().expect_err("none").to_string();
        assert!(
            error.contains("nothing") && error.contains(&all.join(", ")),
            "{error}"
        );
    }
}
