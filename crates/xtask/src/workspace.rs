//! Where things are: the workspace, its target folder, the Go module of the control plane.

use std::{
    env,
    path::{Path, PathBuf},
};

/// The root of the workspace this program was built from.
pub fn root() -> PathBuf {
    let crates_xtask = Path::new(env!("CARGO_MANIFEST_DIR"));
    crates_xtask.ancestors().nth(2).unwrap_or(crates_xtask).to_owned()
}

/// The folder for everything built.
pub fn target() -> PathBuf {
    env::var_os("CARGO_TARGET_DIR").map_or_else(|| root().join("target"), |folder| root().join(folder))
}

/// The Go module that pins Kubernetes and etcd.
pub fn controlplane() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("controlplane")
}

/// The first program of that name on `PATH`.
pub fn on_path(program: &str) -> Option<PathBuf> {
    env::split_paths(&env::var_os("PATH")?)
        .map(|folder| folder.join(program))
        .find(|path| path.is_file())
}
