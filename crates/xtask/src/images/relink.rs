//! Links the dev programs again, without shared libraries, from crates that the tests have built anyway.
//!
//! Programs of shipped images are built for musl. That compiles every dependency a second time: minutes of CPU time with the dev
//! profile. Linking takes 5 s. The result differs from the dev programs in linkage alone, so it has glibc.

use std::{
    collections::BTreeMap,
    fs::{self, File},
    path::{Path, PathBuf},
    process::{Command, Stdio},
};

use anyhow::{Context as _, Result, ensure};
use serde_json::Value;

use super::{Image, VERSION};
use crate::{launch, terminal::print, workspace};

/// Libraries of a build, and folders of their native code.
#[derive(Debug, Default, PartialEq, Eq)]
struct Crates {
    /// Paths by crate name. A crate in two versions or with two sets of features has two paths.
    libraries: BTreeMap<String, Vec<String>>,
    native: Vec<String>,
    /// Source of the main file by program name.
    sources: BTreeMap<String, String>,
}

/// Builds the dev programs of these images, links them statically, and returns their folder.
///
/// # Errors
/// If a program cannot be built or linked; the compiler's message is part of the error.
pub(super) fn build(images: &[Image]) -> Result<PathBuf> {
    let folder = launch::folder(false).join("static");
    fs::create_dir_all(&folder).with_context(|| format!("make {}", folder.display()))?;
    let ours = images.iter().filter(|image| image.is_ours());
    let names: Vec<&str> = ours.map(|image| image.program()).collect();
    if names.is_empty() {
        return Ok(folder);
    }
    let crates = Crates::build(&names)?;
    let lock = folder.join("lock");
    let lock = File::create(&lock).with_context(|| format!("write {}", lock.display()))?;
    lock.lock().context("wait for another link of programs")?;
    print(format!("Linking {} statically.", names.join(", ")));
    // The compiler writes intermediate files next to the program, and another process may still read the last one.
    let new = folder.join("new");
    fs::create_dir_all(&new).with_context(|| format!("make {}", new.display()))?;
    for name in names {
        let program = new.join(name);
        crates.link(name, &program)?;
        fs::rename(&program, folder.join(name)).with_context(|| format!("rename {}", program.display()))?;
    }
    Ok(folder)
}

impl Crates {
    /// Builds the programs with the features of tests, so that a test build is reused.
    fn build(names: &[&str]) -> Result<Self> {
        let output = launch::cargo(names, false)
            .arg("--message-format=json-render-diagnostics")
            .stderr(Stdio::inherit())
            .output()
            .context("start cargo")?;
        ensure!(
            output.status.success(),
            "{} could not be built ({})",
            names.join(", "),
            output.status
        );
        let mut crates = Self::default();
        for line in String::from_utf8_lossy(&output.stdout).lines() {
            crates.add(&serde_json::from_str(line).context("read a message of cargo")?);
        }
        Ok(crates)
    }

    fn add(&mut self, message: &Value) {
        let text = |pointer: &str| message.pointer(pointer).and_then(Value::as_str);
        let texts = |pointer: &str| {
            let values = message.pointer(pointer).and_then(Value::as_array);
            values.into_iter().flatten().filter_map(Value::as_str)
        };
        self.native.extend(texts("/linked_paths").map(str::to_owned));
        let (Some(name), Some(source)) = (text("/target/name"), text("/target/src_path")) else {
            return;
        };
        if text("/executable").is_some() {
            self.sources.insert(name.to_owned(), source.to_owned());
        }
        let is_library = |path: &&str| Path::new(path).extension().is_some_and(|end| end == "rlib");
        let libraries = texts("/filenames").filter(is_library);
        for library in libraries {
            let paths = self.libraries.entry(name.replace('-', "_")).or_default();
            paths.push(library.to_owned());
        }
    }

    fn link(&self, name: &str, program: &Path) -> Result<()> {
        let source = self
            .sources
            .get(name)
            .with_context(|| format!("cargo has built no program {name}"))?;
        let mut rustc = Command::new("rustc");
        rustc
            .current_dir(workspace::root())
            .env("CARGO_PKG_VERSION", VERSION)
            .args(["--crate-name", &name.replace('-', "_"), "--crate-type", "bin"])
            .args(["--edition", "2024", "--cap-lints", "allow"])
            .args(["-C", "target-feature=+crt-static", "-C", "strip=debuginfo"])
            .arg(format!(
                "-Ldependency={}",
                launch::folder(false).join("deps").display()
            ));
        for path in &self.native {
            rustc.args(["-L", path]);
        }
        // The compiler loads only those that the main file names. One with two paths is none of them: it would need a choice.
        for (library, paths) in &self.libraries {
            if let [path] = paths.as_slice() {
                rustc.arg("--extern").arg(format!("{library}={path}"));
            }
        }
        rustc.arg("-o").arg(program).arg(source);
        let output = rustc.output().context("start rustc")?;
        ensure!(
            output.status.success(),
            "{name} could not be linked statically ({}): {}",
            output.status,
            String::from_utf8_lossy(&output.stderr)
        );
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn cargo_messages_list_libraries_programs_and_native_folders() {
        let artifact = |name: &str, file: &str, executable: Value| {
            json!({
                "reason": "compiler-artifact",
                "target": {"name": name, "src_path": format!("/w/{name}.rs")},
                "filenames": [file, format!("{file}.d")],
                "executable": executable,
            })
        };
        let mut crates = Crates::default();
        crates.add(&artifact("a-b", "/t/liba_b-1.rlib", Value::Null));
        crates.add(&artifact("macros", "/t/libmacros.so", Value::Null));
        crates.add(&artifact("program", "/t/program", json!("/t/program")));
        crates.add(&json!({"reason": "build-script-executed", "linked_paths": ["native=/t/out"]}));
        let expected = Crates {
            libraries: BTreeMap::from([("a_b".to_owned(), vec!["/t/liba_b-1.rlib".to_owned()])]),
            native: vec!["native=/t/out".to_owned()],
            sources: BTreeMap::from([("program".to_owned(), "/w/program.rs".to_owned())]),
        };
        assert_eq!(crates, expected);
    }
}
