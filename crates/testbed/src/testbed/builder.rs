//! The builder of a `Testbed`: sets the parts of its control plane, its namespaces and its floor, and starts it.

use anyhow::Result;

use super::Testbed;
use crate::{
    accounts,
    cluster::{Cluster, ClusterOptions},
    programs::Programs,
};

/// What a [`Testbed`] is started with; etcd and an API server alone unless more is asked for.
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

    /// With these components and flags of the control plane.
    pub fn control_plane(mut self, options: ClusterOptions) -> Self {
        self.control_plane = options;
        self
    }

    /// With this namespace, besides those of our programs and any before.
    pub fn namespace(mut self, name: &str) -> Self {
        self.namespaces.push(name.to_owned());
        self
    }

    /// With the floor, as [`Testbed::install_floor`] installs it.
    pub fn floor(mut self) -> Self {
        self.has_floor = true;
        self
    }

    /// Starts the control plane; creates accounts, roles and namespaces; installs the floor if that is asked for.
    ///
    /// # Errors
    /// As [`Cluster::start`], or if the API server refuses an object.
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
            // Boxed: it is twice as large as all else here, and most testbeds go without it.
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
    fn a_testbed_has_what_was_asked_for_and_nothing_else() {
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
