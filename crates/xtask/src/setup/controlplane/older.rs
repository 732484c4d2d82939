//! The API server of an older release, for the long tests: a Go module of its own, built once.

use std::{fs, path::PathBuf};

use anyhow::{Context as _, Result};

use super::{
    super::golang::Go,
    Component, cache_of, compile, is_newer, pins,
    release::{KUBERNETES, required},
};
use crate::{terminal::print, workspace};

/// The folder of the older API server, a value for `KUBEBUILDER_ASSETS`. It has no other programs; [`super::find`] continues
/// with `PATH` and the usual build for those.
///
/// # Errors
/// If Go cannot be installed or the build fails; the message has the end of its log.
pub fn ensure() -> Result<PathBuf> {
    let module = workspace::older_apiserver();
    let path = module.join("go.mod");
    let go_mod = fs::read_to_string(&path).with_context(|| format!("read {}", path.display()))?;
    let kubernetes = required(&go_mod, KUBERNETES)
        .with_context(|| format!("{} does not require Kubernetes", path.display()))?;
    let folder = cache_of(&kubernetes);
    if is_newer(&folder.join(Component::ApiServer.name()), &pins(&module))? {
        return Ok(folder);
    }
    let go = Go::ensure()?;
    print(format!(
        "Building kube-apiserver {kubernetes} from Go modules with {}, because users have older clusters (once).",
        go.describe()
    ));
    compile(&go, &module, &kubernetes, &[Component::ApiServer])?;
    Ok(folder)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn module_pins_an_older_release_than_the_usual_one() {
        let read = |module: PathBuf| fs::read_to_string(module.join("go.mod")).expect("go.mod");
        let minor = |go_mod: &str| {
            let version = required(go_mod, KUBERNETES).expect("a version");
            let minor = version.split('.').nth(1).expect("a minor number");
            minor.parse::<u32>().expect("a number")
        };
        let (older, usual) = (
            read(workspace::older_apiserver()),
            read(workspace::controlplane()),
        );
        assert!(
            minor(&older) < 35,
            "1.35 was the first release to require `create` on pods/portforward"
        );
        assert!(minor(&older) < minor(&usual));
    }
}
