//! Packs folders as reproducible archives, and computes checksums.

use std::{
    fmt::Write as _,
    fs,
    path::Path,
    process::{Command, Stdio},
};

use anyhow::{Context as _, Result, ensure};
use sha2::{Digest as _, Sha256};

/// Packs a folder with its name. Two archives of the same files are equal: no times, no users, sorted names.
pub(crate) fn archive(folder: &Path, to: &Path) -> Result<()> {
    let parent = folder.parent().context("a folder has a parent")?;
    let name = folder.file_name().context("a folder has a name")?;
    pack(parent, &[name.to_string_lossy().as_ref()], to)
}

/// Packs files of a folder, as [`archive`] does.
pub(crate) fn pack(folder: &Path, names: &[&str], to: &Path) -> Result<()> {
    let mut tar = Command::new("tar");
    tar.args(["--create", "--sort=name", "--mtime=@0", "--owner=0", "--group=0"])
        .args([
            "--numeric-owner",
            "--format=ustar",
            "--mode=u=rwX,go=rX",
            "--directory",
        ])
        .arg(folder)
        .args(names)
        .stdout(Stdio::piped());
    let mut tar = tar.spawn().context("start tar")?;
    let stream = tar.stdout.take().context("the output of tar")?;
    let file = fs::File::create(to).with_context(|| format!("write {}", to.display()))?;
    let gzip = Command::new("gzip")
        .args(["--no-name", "--best"])
        .stdin(stream)
        .stdout(file)
        .status()
        .context("start gzip")?;
    let packed = tar.wait().context("await tar")?;
    ensure!(
        packed.success() && gzip.success(),
        "{} could not be packed",
        to.display()
    );
    Ok(())
}

/// Digest of a file in hexadecimal digits.
pub(crate) fn sha256(path: &Path) -> Result<String> {
    let content = fs::read(path).with_context(|| format!("read {}", path.display()))?;
    let mut text = String::new();
    for byte in Sha256::digest(&content) {
        write!(text, "{byte:02x}").context("format a digest")?;
    }
    Ok(text)
}

/// Lines for `sha256sum --check`, sorted by name.
pub(crate) fn sums(folder: &Path) -> Result<String> {
    let mut lines = Vec::new();
    for entry in fs::read_dir(folder).with_context(|| format!("read {}", folder.display()))? {
        let path = entry?.path();
        let name = path
            .file_name()
            .unwrap_or_default()
            .to_string_lossy()
            .into_owned();
        lines.push((name, sha256(&path)?));
    }
    lines.sort_unstable();
    Ok(lines.iter().fold(String::new(), |text, (name, digest)| {
        text + digest + "  " + name + "\n"
    }))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn archives_of_equal_files_are_equal() {
        let archived = |name: &str| {
            let folder = tempfile::tempdir().unwrap();
            let source = folder.path().join("chart");
            fs::create_dir(&source).unwrap();
            fs::write(source.join("b"), "b").unwrap();
            fs::write(source.join("a"), name).unwrap();
            let to = folder.path().join("chart.tgz");
            archive(&source, &to).unwrap();
            sha256(&to).unwrap()
        };
        assert_eq!(archived("a"), archived("a"));
        assert_ne!(archived("a"), archived("c"));
    }

    #[test]
    fn checksums_have_the_format_of_sha256sum() {
        let folder = tempfile::tempdir().unwrap();
        fs::write(folder.path().join("b"), "").unwrap();
        fs::write(folder.path().join("a"), "").unwrap();
        let empty = "e3b0c44298fc1c149afbf4c8996fb92427ae41e4649b934ca495991b7852b855";
        assert_eq!(sums(folder.path()).unwrap(), format!("{empty}  a\n{empty}  b\n"));
    }
}
