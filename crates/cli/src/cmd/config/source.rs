//! [`SloSource`]: versions, nodes and settings from files, and from the webhook if a file is not given.

use std::path::Path;

use headroom_domain::{installation::ConfigMapName, selector::Labels};
use headroom_rules::slo::Data;

use crate::{
    args::ConnectArgs,
    connect::{self, Connection, SloConfigAnswer},
    error::Error,
    slo::{SloError, manifest::Manifest, node_list::NodeList, stored_config::StoredConfig},
};

/// Source of one ConfigMap. It connects to the webhook on first use.
pub(super) struct SloSource<'a> {
    args: &'a ConnectArgs,
    wanted: &'a ConfigMapName,
    connection: Option<Connection>,
}

impl<'a> SloSource<'a> {
    /// Creates a source without connecting.
    pub(super) fn new(args: &'a ConnectArgs, wanted: &'a ConfigMapName) -> Self {
        Self {
            args,
            wanted,
            connection: None,
        }
    }

    /// The version in a file, or the stored version without a file. A ConfigMap that does not exist is an empty version.
    ///
    /// # Errors
    /// The file has no such version, or the webhook does not know it.
    pub(super) async fn version(&mut self, file: Option<&Path>) -> Result<Data, Error> {
        match file {
            Some(file) => Ok(Manifest::read(file)?.config_map(self.wanted)?),
            None => Ok(self.stored().await?.data.unwrap_or_default()),
        }
    }

    /// The nodes in a file, or the nodes of the cluster without a file.
    ///
    /// # Errors
    /// The file has no nodes, or the webhook does not know them.
    pub(super) async fn nodes(&mut self, file: Option<&Path>) -> Result<NodeList, Error> {
        match file {
            Some(file) => Ok(Manifest::read(file)?.nodes()?),
            None => self.open().await?.node_labels(None).await,
        }
    }

    /// The labels of a node, from a file, or from the cluster without a file.
    ///
    /// # Errors
    /// The node does not exist, or the webhook does not know its nodes yet.
    pub(super) async fn node(&mut self, name: &str, file: Option<&Path>) -> Result<Labels, Error> {
        let nodes = match file {
            Some(_) => self.nodes(file).await?,
            None => self.open().await?.node_labels(Some(name)).await?,
        };
        match (nodes.labels(name), file) {
            (Some(found), _) => Ok(found.clone()),
            (None, Some(file)) => Err(Error::from(SloError::UnknownNode {
                name: name.to_owned(),
                count: nodes.len(),
                file: file.to_owned(),
            })),
            (None, None) => Err(self.open().await?.unknown_node(name).await),
        }
    }

    /// The stored version, and the settings of the checks.
    ///
    /// # Errors
    /// The webhook does not know the version, or checks another ConfigMap.
    pub(super) async fn stored(&mut self) -> Result<StoredConfig, Error> {
        let wanted = self.wanted;
        let SloConfigAnswer {
            namespace,
            name,
            stored,
        } = self.open().await?.slo_config().await?;
        if !wanted.is(&namespace, &name) {
            return Err(Error::from(SloError::OtherConfigMap {
                theirs: format!("{namespace}/{name}"),
                asked: wanted.clone(),
            }));
        }
        stored.ok_or_else(|| SloError::ConfigMapNotKnown.into())
    }

    async fn open(&mut self) -> Result<&mut Connection, Error> {
        let connection = match self.connection.take() {
            Some(connection) => connection,
            None => connect::open(self.args).await?,
        };
        Ok(self.connection.insert(connection))
    }
}
