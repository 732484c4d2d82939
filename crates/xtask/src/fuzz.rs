//! `cargo xtask fuzz`: searches for inputs that break a fuzz target, starting from the inputs in its corpus.

use std::{fs, path::PathBuf, time::Duration};

use anyhow::{Context as _, Result, bail, ensure};
use clap::Args;

use crate::{
    lasting,
    setup::{self, Item, cargo_tool::FUZZ, toolchain::Toolchain},
    terminal::print,
    workspace,
};

/// Where the targets are, from the root of the workspace.
const FOLDER: &str = "tests/fuzz";
/// An input that takes longer is a finding, in seconds.
const SLOW_S: u32 = 10;
/// So is one for which memory grows beyond this, in MiB.
const LARGE_MIB: u32 = 1024;

/// `cargo xtask fuzz`.
#[derive(Debug, Clone, Args)]
pub struct Fuzz {
    /// The target: the name of a file in tests/fuzz/fuzz_targets. Without one, all of them in turn.
    target: Option<String>,
    /// How long to look, for each target: `90s`, `10m`.
    #[arg(long = "for", value_name = "TIME", value_parser = lasting::parse, default_value = "10m")]
    lasts: Duration,
    /// Afterwards leave in the corpus only what reaches something that nothing smaller reaches.
    #[arg(long)]
    minimize: bool,
}

impl Fuzz {
    /// Gets what is needed, builds the targets and runs them.
    ///
    /// # Errors
    /// If there is no such target, something cannot be got or built, or an input was found that breaks a target.
    pub fn run(&self) -> Result<()> {
        let targets = self.targets()?;
        setup::run(&[Item::Nightly, Item::CargoFuzz])?.check_all()?;
        let toolchain = Toolchain::find().context("the nightly toolchain is gone")?;
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
                "inputs that break {} are in {FOLDER}/artifacts; mend what they break and keep them in {FOLDER}/corpus",
                broken.join(", ")
            );
        }
        Ok(())
    }

    /// The targets that were asked for.
    fn targets(&self) -> Result<Vec<String>> {
        let all = names()?;
        let Some(target) = &self.target else {
            return Ok(all);
        };
        ensure!(
            all.contains(target),
            "there is no fuzz target {target}, only {}",
            all.join(", ")
        );
        Ok(vec![target.clone()])
    }
}

/// The names of all targets.
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

/// Builds a target; what does not compile is no finding.
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

/// False if an input was found that breaks the target.
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

/// Leaves in the corpus only what reaches something that nothing smaller reaches.
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
        // None of what is fuzzed has unsafe code, so there is nothing that an address sanitizer would find.
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
    fn a_target_that_is_none_is_refused_with_those_that_are() {
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
