//! `cargo xtask release`: builds the files of a release in one folder, with their checksums.
#![forbid(unsafe_code)]

mod oci;
mod pack;
mod plugin;
mod publisher;

use std::{
    ffi::OsString,
    fs,
    path::{Path, PathBuf},
    process::{Command, ExitCode},
};

use anyhow::{Context as _, Result, bail, ensure};
use clap::Parser;
use xtask::{
    images::{self, Image, Images, Linkage, VERSION},
    setup::{
        self, Item,
        controlplane::{self, Component},
    },
    terminal::print,
    workspace,
};

use self::publisher::Publisher;

/// Builds the files of a release: images, chart, manifest, plugin and checksums.
#[derive(Debug, Parser)]
#[command(name = "cargo xtask release", bin_name = "cargo xtask release")]
struct Release {
    /// Folder for the files; it must be empty or absent.
    #[arg(long, value_name = "DIR")]
    folder: Option<PathBuf>,
    /// For tests: images and plugin of dev programs, linked statically with glibc. Takes seconds.
    #[arg(long)]
    relink: bool,
}

const CHART: &str = "deploy/chart/headroom";
const BASE: &str = "deploy/kustomize/base";
/// File with the digests of all others, as `sha256sum --check` reads it.
const SUMS: &str = "SHA256SUMS";

fn main() -> ExitCode {
    match Release::parse().run() {
        Ok(()) => ExitCode::SUCCESS,
        Err(error) => {
            print(format_args!("error: {error:#}"));
            ExitCode::FAILURE
        }
    }
}

impl Release {
    fn run(&self) -> Result<()> {
        let publisher = Publisher::read()?;
        for placeholder in publisher.placeholders() {
            print(format!(
                "warning: {} has the placeholder {placeholder}: set it before you publish",
                publisher::FILE
            ));
        }
        let folder = self.folder();
        fs::create_dir_all(&folder).with_context(|| format!("make {}", folder.display()))?;
        if fs::read_dir(&folder)?.next().is_some() {
            bail!(
                "{} is not empty: a release contains only its own files",
                folder.display()
            );
        }
        self.install_tools()?;
        self.write_images(&folder)?;
        pack::archive(
            &workspace::root().join(CHART),
            &folder.join(format!("headroom-{VERSION}.tgz")),
        )?;
        fs::write(folder.join("install.yaml"), manifest()?).context("write install.yaml")?;
        let programs = tempfile::tempdir().context("make a folder")?;
        self.copy_plugin(programs.path())?;
        plugin::write(&publisher, programs.path(), &folder)?;
        fs::write(folder.join(SUMS), pack::sums(&folder)?).context("write the checksums")?;
        print(format!("The release is in {}.", folder.display()));
        Ok(())
    }

    fn folder(&self) -> PathBuf {
        let usual = || workspace::target().join("release-files").join(VERSION);
        self.folder.clone().unwrap_or_else(usual)
    }

    fn linkage(&self) -> Linkage<'static> {
        if self.relink {
            Linkage::Relinked
        } else {
            Linkage::Musl("dist")
        }
    }

    fn install_tools(&self) -> Result<()> {
        let mut items = vec![
            Item::Images,
            Item::Nightly,
            Item::BpfLinker,
            Item::Controlplane(vec![Component::Kubectl]),
        ];
        if !self.relink {
            items.push(Item::Musl);
        }
        setup::run(&items)?.check_all()
    }

    /// Copies the static program of the plugin, as in its image, to a folder.
    fn copy_plugin(&self, folder: &Path) -> Result<()> {
        let mut words = ["images", "--only=cli", "--programs"]
            .map(OsString::from)
            .to_vec();
        words.push(folder.into());
        if self.relink {
            words.push("--relink".into());
        }
        ImagesCommand::try_parse_from(words)
            .context("parse the command line of images")?
            .images
            .run()
    }

    /// Builds the images, and converts their archives.
    fn write_images(&self, folder: &Path) -> Result<()> {
        for archive in images::ensure(self.linkage(), &Image::OURS)?.values() {
            oci::convert(archive, folder)?;
        }
        Ok(())
    }
}

/// The command line of `cargo xtask images`.
#[derive(Debug, Parser)]
struct ImagesCommand {
    #[command(flatten)]
    images: Images,
}

/// `install.yaml`: the base, as one file.
fn manifest() -> Result<Vec<u8>> {
    let programs = controlplane::ensure(&[Component::Kubectl])?;
    let kubectl = programs.into_values().next().context("kubectl was installed")?;
    let mut command = Command::new(kubectl.path);
    command.arg("kustomize").arg(workspace::root().join(BASE));
    let output = command.output().context("start kubectl")?;
    ensure!(
        output.status.success(),
        "kubectl kustomize: {}",
        String::from_utf8_lossy(&output.stderr)
    );
    Ok(output.stdout)
}
