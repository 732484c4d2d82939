//! Builder of a `Testbed`: sets the components of the control plane, namespaces and floor, and starts it.

use anyhow::Result;

use super::Testbed;
use crate::{
    accounts,
    cluster::{Cluster, ClusterOptions},
    programs::Programs,
};

/// Options of a [`Testbed`]. The default is etcd and an API server, without floor.
#[derive(Debug, Clone)]
pub struct Builder {
    programs: Programs,
    control_plane: ClusterOptions,
    namespaces: Vec<String>,
    has_floor: bool,
}

impl Builder {
    pub(super) fn new(programs: Programs) -> Self {
        Self {
            programs,
            control_plane: ClusterOptions::default(),
            namespaces: Vec::new(),
            has_floor: false,
        }
    }

    /// Sets components and flags of the control plane.
    pub fn control_plane(mut self, options: ClusterOptions) -> Self {
        self.control_plane = options;
        self
    }

    /// Adds a namespace to those of Headroom's programs.
    pub fn namespace(mut self, name: &str) -> Self {
        self.namespaces.push(name.to_owned());
        self
    }

    /// Adds the floor, as [`Testbed::install_floor`].
    pub fn floor(mut self) -> Self {
        self.has_floor = true;
        self
    }

    /// Starts the control plane, creates accounts, roles and namespaces, and installs the floor if requested.
    ///
    /// # Errors
    /// Errors of [`Cluster::start`], and an object that the API server refuses.
    pub async fn start(self) -> Result<Testbed> {
        let cluster = Cluster::start(self.control_plane).await?;
        let client = cluster.client().await?;
        accounts::create(&client).await?;
        for namespace in &self.namespaces {
            accounts::create_namespace(&client, namespace).await?;
        }
        let mut testbed = Testbed {
            cluster,
            client,
            programs: self.programs,
            has_floor: false,
        };
        if self.has_floor {
            // Boxed: this future is twice as large as the rest, and most testbeds do not need it.
            Box::pin(testbed.install_floor()).await?;
        }
        Ok(testbed)
    }
}

#[cfg(test)]
mod tests {
    use std::path::PathBuf;

    use super::*;

    #[test]
    fn builder_sets_only_requested_options() {
        let [agent, webhook, cli, load] = Programs::NAMES.map(PathBuf::from);
        let programs = Programs {
            agent,
            webhook,
            cli,
            load,
        };
        let bare = Builder::new(programs);
        assert_eq!(bare.control_plane, ClusterOptions::default());
        assert!(bare.namespaces.is_empty() && !bare.has_floor);
        let full = bare
            .control_plane(ClusterOptions::full())
            .namespace("a")
            .namespace("b")
            .floor();
        assert_eq!(full.control_plane, ClusterOptions::full());
        assert_eq!(full.namespaces, ["a", "b"]);
        assert!(full.has_floor);
    }
}
