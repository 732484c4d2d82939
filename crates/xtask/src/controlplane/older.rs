//! The API server of an older release, for the long tests: a Go module of its own, built once.

use std::{fs, path::PathBuf};

use anyhow::{Context as _, Result};

use super::{
    Component, cache_of, compile, is_newer, pins,
    release::{KUBERNETES, required},
};
use crate::{setup::golang::Go, terminal::print, workspace};

/// The folder of the older API server, as `KUBEBUILDER_ASSETS` may name it; what is missing there is taken from elsewhere.
///
/// # Errors
/// If Go cannot be had or the build fails; the message holds the end of its log.
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
        "Building kube-apiserver {kubernetes} from Go modules with {}, as people have older clusters (once).",
        go.describe()
    ));
    compile(&go, &module, &kubernetes, &[Component::ApiServer])?;
    Ok(folder)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_module_pins_a_release_before_the_one_that_tests_run_on() {
        let read = |module: PathBuf| fs::read_to_string(module.join("go.mod")).expect("go.mod");
        let minor = |go_mod: &str| {
            let version = required(go_mod, KUBERNETES).expect("a version");
            let minor = version.split('.').nth(1).expect("a minor number");
            minor.parse::<u32>().expect("a number")
        };
        let (older, today) = (
            read(workspace::older_apiserver()),
            read(workspace::controlplane()),
        );
        assert!(
            minor(&older) < 35,
            "1.35 began to ask for `create` on pods/portforward"
        );
        assert!(minor(&older) < minor(&today));
    }
}
