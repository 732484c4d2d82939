//! [`Publisher`]: the settings of `deploy/publisher.yaml` that a release needs.

use std::fs;

use anyhow::{Context as _, Result};
use serde::Deserialize;
use xtask::workspace;

pub(crate) const FILE: &str = "deploy/publisher.yaml";
/// Host of all placeholders.
const PLACEHOLDER: &str = "headroom.sh";

#[derive(Debug, Deserialize)]
pub(crate) struct Publisher {
    pub(crate) home: String,
    /// Folder of the archives on the web.
    pub(crate) downloads: String,
    #[serde(rename = "securityContact")]
    security_contact: String,
}

impl Publisher {
    pub(crate) fn read() -> Result<Self> {
        let path = workspace::root().join(FILE);
        let text = fs::read_to_string(&path).with_context(|| format!("read {}", path.display()))?;
        serde_saphyr::from_str(&text).with_context(|| format!("parse {FILE}"))
    }

    /// Settings that still have the value of the repository.
    pub(crate) fn placeholders(&self) -> impl Iterator<Item = &str> {
        let all = [&self.home, &self.downloads, &self.security_contact];
        all.into_iter()
            .map(String::as_str)
            .filter(|value| value.contains(PLACEHOLDER))
    }
}
