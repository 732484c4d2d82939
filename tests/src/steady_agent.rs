//! [`SteadyAgent`] is a scripted agent that repeats its report; a test sets the ratio and the brake in it.

use std::time::Duration;

use headroom_domain::{
    hint::{Brake, NodeHint},
    ratio::Cents,
};
use headroom_testbed::webhook::Webhook;
use kube::ResourceExt as _;
use tokio::{sync::watch, time::sleep};
use tokio_util::task::AbortOnDropHandle;

use crate::{
    scripted_agent::{ScriptedAgent, hint},
    stand::Stand,
};

const EVERY: Duration = Duration::from_millis(500);

/// The agent of one node with a stream to one replica. It stops reporting on drop and when the stream ends.
#[derive(Debug)]
pub struct SteadyAgent {
    says_tx: watch::Sender<(u32, Brake)>,
    _task: AbortOnDropHandle<()>,
}

impl SteadyAgent {
    /// Starts an agent that reports this ratio of CPU without a brake.
    pub async fn start(stand: &Stand, webhook: &Webhook, node: &str, cents: u32) -> Self {
        let object = stand.nodes().get(node).await.expect("read the node");
        let agent = stand.agent(&object, webhook).await;
        let (says_tx, says) = watch::channel((cents, Brake::Off));
        let uid = object.uid().expect("a UID");
        let task = tokio::spawn(reports(agent, node.to_owned(), uid, says));
        Self {
            says_tx,
            _task: AbortOnDropHandle::new(task),
        }
    }

    /// Sets the reported ratio of CPU and its brake.
    pub fn set_ratio(&self, cents: u32, brake: Brake) {
        self.says_tx.send_replace((cents, brake));
    }
}

/// Reports on the pods of the last received list.
async fn reports(
    mut agent: ScriptedAgent,
    node: String,
    uid: String,
    mut says: watch::Receiver<(u32, Brake)>,
) {
    for seq in 1.. {
        let (cents, brake) = *says.borrow_and_update();
        let mut report = NodeHint {
            pods_generation: agent.pods.as_ref().map_or(0, |pods| pods.generation),
            ..hint(&node, &uid, seq, cents)
        };
        report.resources.cpu.published = Cents(cents);
        report.resources.cpu.brake = brake;
        if agent.report(&report).await.is_err() {
            return;
        }
        tokio::select! {
            () = sleep(EVERY) => {}
            changed = says.changed() => if changed.is_err() { return },
        }
    }
}
