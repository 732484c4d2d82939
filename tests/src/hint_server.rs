//! [`HintServer`] wraps the testbed's hint server: a test waits for a report that satisfies a condition, or fails
//! after a deadline.

use std::{net::SocketAddr, path::Path};

use headroom_proto::v1alpha1::Pods;
use headroom_testbed::hint_server;
pub use headroom_testbed::hint_server::ReceivedReport;
use tokio::time::timeout;

use crate::pace::happens_within;

/// A running server; dropping it closes all connections abruptly, as a power loss does.
#[derive(Debug)]
pub struct HintServer(hint_server::HintServer);

impl HintServer {
    /// Starts on an address, with its certificate in a folder; it sends these pods to every agent.
    pub async fn start(address: SocketAddr, folder: &Path, pods: Pods) -> Self {
        let server = hint_server::HintServer::start(address, folder, pods).await;
        Self(server.expect("a hint server"))
    }

    /// Waits for the next report that satisfies the condition.
    pub async fn report_until(
        &mut self,
        what: &str,
        is_it: impl Fn(&ReceivedReport) -> bool + Sync,
    ) -> ReceivedReport {
        let wanted = async {
            loop {
                let received = self.reports.recv().await.expect("the server goes on");
                if is_it(&received) {
                    return received;
                }
            }
        };
        let reports_within = happens_within();
        let received = timeout(reports_within, wanted).await;
        received.unwrap_or_else(|_elapsed| panic!("no report in {reports_within:?}: {what}"))
    }
}

impl std::ops::Deref for HintServer {
    type Target = hint_server::HintServer;

    fn deref(&self) -> &Self::Target {
        &self.0
    }
}

impl std::ops::DerefMut for HintServer {
    fn deref_mut(&mut self) -> &mut Self::Target {
        &mut self.0
    }
}

/// An empty pod list with this machine's capacity.
pub fn this_machine() -> Pods {
    hint_server::this_machine().expect("this machine's files")
}
