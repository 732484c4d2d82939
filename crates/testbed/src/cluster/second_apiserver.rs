//! Starts a second API server of a cluster, on the same etcd.

use anyhow::Result;
use kube::Client;
use xtask::setup::controlplane::Component;

use super::{Cluster, MASTERS, client_of, command, port::Port, program};

impl Cluster {
    /// Starts another API server on the same etcd, which runs until the end, and waits until it is ready. Returns a client of it
    /// with the administrator's rights.
    ///
    /// # Errors
    /// Errors of [`Self::start`].
    pub async fn start_second_apiserver(&mut self) -> Result<Client> {
        let program = program(&self.programs, Component::ApiServer)?;
        let port = Port::reserve()?;
        let arguments = command::apiserver(&self.layout, port.number(), &self.options);
        let process = self
            .layout
            .spawn_named("kube-apiserver-second", &program, &arguments)?;
        let kubeconfig = self
            .authority
            .kubeconfig_via(&port.url(), "admin", Some(MASTERS))?;
        self.second = Some((process, port));
        let client = client_of(&kubeconfig).await?;
        self.until("the second API server is ready", || async {
            let request = http::Request::get("/readyz").body(Vec::new());
            match request {
                Ok(request) => client.request_text(request).await.is_ok(),
                Err(_) => false,
            }
        })
        .await?;
        Ok(client)
    }
}
