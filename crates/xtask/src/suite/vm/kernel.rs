//! Finds or downloads Debian's kernels for the emulated machine; they are unpacked and never installed.

use std::{
    fs,
    path::{Path, PathBuf},
};

use anyhow::{Context as _, Result, bail};

use super::folder;
use crate::{setup::debian::Lists, terminal::print};

/// All tested kernel series, oldest first.
pub(in crate::suite) const SERIES: [&str; 3] = ["5.10", "6.1", "6.12"];
/// A series that is missing in this release of Debian, and the code name of the release that has it.
const OF_ANOTHER_RELEASE: (&str, &str) = ("5.10", "bullseye");

/// Debian's smaller build: drivers of a virtual machine, such as disk and file system, are built in.
const FLAVOUR: &str = "-cloud-amd64";
/// True if a missing kernel of the series is no error: mirrors drop old releases.
pub(super) fn may_be_unavailable(series: &str) -> bool {
    series == OF_ANOTHER_RELEASE.0
}

/// Prefixes of package and file names before the release.
const PACKAGE: &str = "linux-image-";
const FILE: &str = "vmlinuz-";

#[derive(Debug, PartialEq, Eq)]
pub(super) struct Kernel {
    /// Output of `uname -r` on it.
    pub(super) release: String,
    pub(super) image: PathBuf,
}

impl Kernel {
    /// The newest downloaded kernel of the series. Without one, downloads the newest in Debian's package lists.
    ///
    /// # Errors
    /// If there is none, or the download fails.
    pub(super) fn ensure(series: &str) -> Result<Self> {
        let folder = folder();
        fs::create_dir_all(&folder).with_context(|| format!("make {}", folder.display()))?;
        if let Some(kernel) = Self::find(series, &folder)? {
            print(format!("ready    Linux {series}: {}", kernel.image.display()));
            return Ok(kernel);
        }
        print(format!(
            "missing  Linux {series}, which the kernel tests also run on: downloading it"
        ));
        let lists = lists(series, &folder)?;
        let package = in_debian(series, &lists)?;
        let unpacked = tempfile::tempdir_in(&folder).context("make a folder for a kernel")?;
        lists.unpack(&package, unpacked.path())?;
        let boot = unpacked.path().join("boot");
        let kernel =
            Self::find(series, &boot)?.with_context(|| format!("package {package} contains no kernel"))?;
        let image = folder.join(format!("{FILE}{}", kernel.release));
        fs::rename(&kernel.image, &image).with_context(|| format!("write {}", image.display()))?;
        Ok(Self { image, ..kernel })
    }

    fn find(series: &str, folder: &Path) -> Result<Option<Self>> {
        let entries = fs::read_dir(folder).with_context(|| format!("read {}", folder.display()))?;
        let names = entries
            .filter_map(Result::ok)
            .filter_map(|entry| entry.file_name().into_string().ok());
        Ok(releases(series, FILE, names).pop().map(|release| Self {
            image: folder.join(format!("{FILE}{release}")),
            release,
        }))
    }
}

/// Package lists that contain the kernels of the series.
fn lists(series: &str, folder: &Path) -> Result<Lists> {
    let (elsewhere, codename) = OF_ANOTHER_RELEASE;
    if series == elsewhere {
        Lists::of_release(codename, folder)
    } else {
        Ok(Lists::own())
    }
}

/// Package of the newest available kernel of the series.
fn in_debian(series: &str, lists: &Lists) -> Result<String> {
    let start = format!("{PACKAGE}{series}.");
    let mut names = lists.names(&start)?;
    if names.is_empty() {
        lists.update()?;
        names = lists.names(&start)?;
    }
    for release in releases(series, PACKAGE, names.into_iter()).iter().rev() {
        let package = format!("{PACKAGE}{release}");
        // Lists also contain packages that other packages only refer to.
        if lists.is_known(&package)? {
            return Ok(package);
        }
    }
    bail!("Debian no longer has a package {start}*{FLAVOUR}")
}

/// Releases of the series among names that begin with `before`, oldest first.
fn releases(series: &str, before: &str, names: impl Iterator<Item = String>) -> Vec<String> {
    let start = format!("{series}.");
    let mut releases: Vec<String> = names
        .filter_map(|name| name.strip_prefix(before).map(str::to_owned))
        .filter(|release| release.starts_with(&start) && release.ends_with(FLAVOUR))
        .collect();
    releases.sort_by_key(|release| numbers(release));
    releases
}

fn numbers(release: &str) -> Vec<u32> {
    let parts = release.split(|character: char| !character.is_ascii_digit());
    parts.filter_map(|part| part.parse().ok()).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn releases_of_a_series_are_sorted_by_version() {
        let names = [
            "linux-image-6.1.0-9-cloud-amd64",
            "linux-image-6.1.0-56-cloud-amd64",
            "linux-image-6.1.0-56-cloud-amd64-unsigned",
            "linux-image-6.1.0-57-amd64",
            "linux-image-6.12.117+deb12-cloud-amd64",
            "linux-headers-6.1.0-57-cloud-amd64",
        ];
        let of = |series: &str| releases(series, PACKAGE, names.iter().map(|&name| name.to_owned()));
        assert_eq!(of("6.1"), ["6.1.0-9-cloud-amd64", "6.1.0-56-cloud-amd64"]);
        assert_eq!(of("6.12"), ["6.12.117+deb12-cloud-amd64"]);
        assert!(of("6.2").is_empty());
    }

    #[test]
    fn downloaded_kernel_is_found() {
        let folder = tempfile::tempdir().expect("folder");
        assert_eq!(Kernel::find("6.1", folder.path()).expect("read"), None);
        let image = folder.path().join("vmlinuz-6.1.0-56-cloud-amd64");
        fs::write(&image, "").expect("write");
        let kernel = Kernel::find("6.1", folder.path()).expect("read");
        let release = "6.1.0-56-cloud-amd64".to_owned();
        assert_eq!(kernel, Some(Kernel { release, image }));
    }
}
