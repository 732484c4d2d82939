//! Starts and stops the webhook's own server stack on loopback.

use std::{
    net::{Ipv4Addr, SocketAddr},
    path::Path,
    sync::Arc,
    time::SystemTime,
};

use anyhow::Result;
use headroom_kit::{
    serve::{Limits, Listener},
    supervise::Shutdown,
    tls::{self, CertStore, ClientAuth, MinVersion, client::client_config, self_signed, server_config},
};
use headroom_webhook::admission::router::Router;
use rustls::ClientConfig;
use tokio::task::JoinHandle;

/// The webhook's server stack around a router, on loopback.
pub(crate) struct Server {
    /// Where it listens.
    pub(crate) address: SocketAddr,
    shutdown: Shutdown,
    serving: JoinHandle<()>,
}

impl Server {
    /// Begins to serve, with certificates of its own in `directory`.
    pub(crate) async fn start(router: Router, directory: &Path) -> Result<Self> {
        tls::install_provider();
        let names = ["localhost".to_owned()];
        let files = self_signed::ensure(directory, &names, SystemTime::now())?;
        let store = CertStore::load("bench", files, SystemTime::now())?;
        let server = server_config(store, MinVersion::Tls12, &ClientAuth::None, &["http/1.1"])?;
        let loopback = SocketAddr::from((Ipv4Addr::LOCALHOST, 0));
        let listener = Listener::bind("bench", loopback, Limits::default()).await?;
        let address = listener.address();
        let shutdown = Shutdown::new();
        let serving = tokio::spawn(
            listener.serve_http(Some(server), shutdown.clone(), move |request| {
                let router = router.clone();
                async move { router.respond(request).await }
            }),
        );
        Ok(Self {
            address,
            shutdown,
            serving,
        })
    }

    /// Ends it.
    pub(crate) async fn stop(self) -> Result<()> {
        self.shutdown.stop();
        self.serving.await?;
        Ok(())
    }
}

/// How clients verify the server whose certificates are in `directory`.
pub(crate) fn client_of(directory: &Path) -> Result<Arc<ClientConfig>> {
    tls::install_provider();
    Ok(client_config(
        &directory.join(self_signed::CA_CERT),
        None,
        &["http/1.1"],
    )?)
}
