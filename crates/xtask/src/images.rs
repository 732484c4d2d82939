//! `cargo xtask images`: builds static programs and container images of them, without a daemon.

mod archive;
mod buildah;
mod context;
mod image;
mod programs;
mod relink;

use std::{
    collections::BTreeMap,
    fs::{self, File},
    path::{Path, PathBuf},
};

use anyhow::{Context as _, Result, bail};
use clap::{Args, ValueEnum as _};

use self::buildah::Storage;
pub use self::{
    archive::Archive,
    image::{Image, VERSION},
};
use crate::{
    elf::Architecture,
    setup::{self, Item, buildah::busybox},
    terminal::print,
    workspace,
};

// The arguments of `cargo xtask images`. A doc comment would be its help text.
#[derive(Debug, Clone, Args)]
pub struct Images {
    /// Cargo profile of the programs.
    #[arg(long, default_value = "dist")]
    profile: String,
    /// For tests: links the dev programs statically with glibc, instead of building programs for musl. Takes seconds.
    #[arg(long, conflicts_with_all = ["profile", "arch"])]
    relink: bool,
    /// Takes ready static programs from this folder, and builds none.
    #[arg(long, value_name = "DIR", conflicts_with_all = ["profile", "relink"])]
    binaries: Option<PathBuf>,
    /// Builds only this image; repeatable.
    #[arg(long, value_enum)]
    only: Vec<Image>,
    /// Architecture of programs and images.
    #[arg(long, value_enum, default_value_t = Architecture::OWN)]
    arch: Architecture,
    /// Only builds the programs, and copies them to this folder.
    #[arg(long, value_name = "DIR", conflicts_with = "binaries")]
    programs: Option<PathBuf>,
}

/// Linkage of the programs in images.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Linkage<'p> {
    /// The dev programs, linked statically with glibc. The images differ from shipped ones in C library and optimisation.
    Relinked,
    /// Built for musl with this cargo profile, as in shipped images. Needs [`Item::Musl`].
    Musl(&'p str),
}

/// Inputs and place of images.
#[derive(Debug, Clone, Copy)]
pub struct Sources<'s> {
    /// Folder of ready static programs.
    pub programs: &'s Path,
    pub architecture: Architecture,
    /// Git commit, for the label.
    pub revision: &'s str,
    /// Folder for archives; builds write nowhere else.
    pub folder: &'s Path,
}

/// Builds the programs of these images, then the images in [`Linkage::folder`]. An image whose inputs have not changed is reused.
/// [`Item::Images`] must be installed.
///
/// # Errors
/// If a program or an image cannot be built.
pub fn ensure(linkage: Linkage<'_>, images: &[Image]) -> Result<BTreeMap<Image, Archive>> {
    let programs = linkage.build(images, Architecture::OWN)?;
    build(
        Sources {
            programs: &programs,
            architecture: Architecture::OWN,
            revision: &revision(),
            folder: &linkage.folder(),
        },
        images,
    )
}

/// Builds the images of ready programs. An image whose inputs have not changed is reused.
///
/// # Errors
/// If a program is missing or cannot run in an image, or buildah fails.
pub fn build(sources: Sources<'_>, images: &[Image]) -> Result<BTreeMap<Image, Archive>> {
    let mut read = Vec::new();
    for &image in images {
        let path = program(sources, image)?;
        read.push((image, programs::read(image, &path, sources.architecture)?));
    }
    if let Some(why) = obstacle() {
        bail!("{why}");
    }
    let folder = sources.folder;
    fs::create_dir_all(folder)
        .with_context(|| format!("the folder of images, {}, cannot be written", folder.display()))?;
    let lock = folder.join("lock");
    let lock = File::create(&lock).with_context(|| format!("write {}", lock.display()))?;
    lock.lock().context("wait for another build of images")?;
    let mut archives = BTreeMap::new();
    for (image, program) in read {
        archives.insert(image, build_one(sources, image, &program)?);
    }
    Ok(archives)
}

/// Reason why this machine cannot build images, if there is one.
pub fn obstacle() -> Option<String> {
    if !rustix::process::geteuid().is_root() {
        return Some("only root can build images".to_owned());
    }
    let missing = setup::buildah::find().is_none();
    missing.then(|| "buildah or a static busybox is not on PATH; cargo xtask setup installs both".to_owned())
}

fn build_one(sources: Sources<'_>, image: Image, program: &[u8]) -> Result<Archive> {
    let Sources {
        architecture,
        revision,
        folder,
        ..
    } = sources;
    let path = Archive::path(image, architecture, folder);
    let inputs = archive::inputs(image, architecture, revision, program)?;
    if let Some(archive) = Archive::find(image, &path, &inputs) {
        return Ok(archive);
    }
    Archive::forget(&path)?;
    let storage = Storage::create(&folder.join("storage"), u64::try_from(program.len())?)?;
    context::write(image, program, &storage.context())?;
    let id = storage.build(image, architecture, revision, &path)?;
    storage.finish()?;
    let archive = Archive {
        reference: image.reference(),
        id,
        path,
    };
    archive.record(&inputs)?;
    Ok(archive)
}

/// Path of the program of an image.
fn program(sources: Sources<'_>, image: Image) -> Result<PathBuf> {
    if image.is_ours() {
        return Ok(sources.programs.join(image.program()));
    }
    busybox().context("no static busybox is on PATH: install Debian's package busybox-static")
}

/// Commit of the sources, for the label.
fn revision() -> String {
    // An archive of the sources has no commit.
    workspace::commit(&["."], "target").unwrap_or_else(|_| "unknown".to_owned())
}

impl Linkage<'_> {
    /// Folder of archives. Those of tests are aside, so that neither replaces the other while it is read.
    pub fn folder(self) -> PathBuf {
        let folder = workspace::target().join("images");
        match self {
            Self::Relinked => folder.join("relinked"),
            Self::Musl(_) => folder,
        }
    }

    /// Builds the programs of these images, and returns their folder.
    fn build(self, images: &[Image], architecture: Architecture) -> Result<PathBuf> {
        match self {
            Self::Relinked => relink::build(images),
            Self::Musl(profile) => programs::build(images, profile, architecture),
        }
    }
}

impl Images {
    /// Builds programs and images, and prints each image with its ID and archive.
    ///
    /// # Errors
    /// If a tool cannot be installed, or a program or an image cannot be built.
    pub fn run(&self) -> Result<()> {
        let images = if self.only.is_empty() {
            Image::value_variants()
        } else {
            &self.only
        };
        if self.binaries.is_none() && self.arch != Architecture::OWN {
            bail!(
                "this machine has {} and builds no programs for {}; pass a folder of ready ones with --binaries",
                Architecture::OWN,
                self.arch
            );
        }
        setup::run(&self.items(images))?.check_all()?;
        let linkage = if self.relink {
            Linkage::Relinked
        } else {
            Linkage::Musl(&self.profile)
        };
        let folder = linkage.folder();
        let programs = match &self.binaries {
            Some(ready) => ready.clone(),
            None => linkage.build(images, self.arch)?,
        };
        if let Some(out) = &self.programs {
            return programs::copy(images, &programs, self.arch, out);
        }
        let sources = Sources {
            programs: &programs,
            architecture: self.arch,
            revision: &revision(),
            folder: &folder,
        };
        for Archive { reference, id, path } in build(sources, images)?.values() {
            print(format!("{reference}  {id}  {}", path.display()));
        }
        Ok(())
    }

    fn items(&self, images: &[Image]) -> Vec<Item> {
        let mut items = Vec::new();
        if self.binaries.is_none() && images.iter().any(|image| image.is_ours()) {
            if !self.relink {
                items.push(Item::Musl);
            }
            if images.contains(&Image::Agent) {
                items.extend([Item::Nightly, Item::BpfLinker]);
            }
        }
        if self.programs.is_none() {
            items.push(Item::Images);
        }
        items
    }
}
