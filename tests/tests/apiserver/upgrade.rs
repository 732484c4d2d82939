//! An upgrade from programs of an earlier commit and the way back, while a node is written: webhook, agent and command line in each
//! order in which versions meet.
#![expect(clippy::expect_used, reason = "tests panic: a returned error has no stack")]

use std::{env, path::PathBuf};

use e2e::{
    balancer::Balancer,
    node_writer,
    stand::{Stand, count, until},
};
use headroom_testbed::{
    agent::{Agent, AgentOptions},
    cluster::ClusterOptions,
    webhook::{Webhook, register},
};
use rustix::process::Signal;
use tokio::{process::Command, sync::watch, task::JoinSet};

const NODE: &str = "n1";

/// Programs of one version.
struct Version {
    webhook: PathBuf,
    agent: PathBuf,
    cli: PathBuf,
}

/// Two replicas behind one address, each of some version.
struct VersionedReplicas {
    running: [Webhook; 2],
    service: Balancer,
}

/// Programs in the folder of the earlier version.
fn earlier() -> Version {
    let folder = env::var_os("HEADROOM_EARLIER_PROGRAMS").expect("HEADROOM_EARLIER_PROGRAMS");
    let folder = PathBuf::from(folder);
    let program = |name| folder.join(name);
    Version {
        webhook: program("headroom-webhook"),
        agent: program("headroom-agent"),
        cli: program("kubectl-headroom"),
    }
}

async fn replica(stand: &Stand, version: &Version, index: usize) -> Webhook {
    let mut options = stand.webhook_options(&format!("webhook-{index}"), "{}");
    options.program.clone_from(&version.webhook);
    Webhook::start(&options).await.expect("start the webhook")
}

impl VersionedReplicas {
    async fn start(stand: &Stand, version: &Version) -> Self {
        let running = [replica(stand, version, 0).await, replica(stand, version, 1).await];
        let service = Balancer::start().await;
        service.replace(running.iter().map(|replica| replica.admission));
        Self { running, service }
    }

    /// Replaces one replica after the other, as a rollout does: the new one is ready before the old one ends.
    async fn roll(&mut self, stand: &Stand, version: &Version) {
        for is_first in [true, false] {
            let index = usize::from(!is_first);
            let next = replica(stand, version, index).await;
            let [first, second] = &mut self.running;
            let place = if is_first { first } else { second };
            let mut ended = std::mem::replace(place, next);
            self.service
                .replace(self.running.iter().map(|replica| replica.admission));
            ended.process.signal(Signal::TERM).expect("end a replica");
            until("the replica has ended", async || {
                ended.process.status().expect("its status").is_some()
            })
            .await;
        }
    }

    /// Starts an agent, waits until both replicas have its stream, and returns it.
    async fn report(&self, stand: &Stand, version: &Version) -> Agent {
        let [first, second] = &self.running;
        let options = stand
            .agent_options(NODE, &[first, second])
            .await
            .expect("options");
        let options = AgentOptions {
            program: version.agent.clone(),
            ..options.source("procfs")
        };
        let agent = Agent::spawn(&options).expect("start the agent");
        for replica in &self.running {
            until("the replica has the agent's stream", async || {
                count(replica, "headroom_webhook_streams").await == 1
            })
            .await;
        }
        agent
    }

    /// Runs commands of a command line against each replica.
    async fn show(&self, stand: &Stand, version: &Version) {
        let kubeconfig = stand.cluster.kubeconfig_for("admin", Some("system:masters"));
        let kubeconfig = kubeconfig.expect("a kubeconfig");
        for replica in &self.running {
            for command in [["top", "--once"], ["explain", NODE]] {
                let output = Command::new(&version.cli)
                    .arg("--kubeconfig")
                    .arg(&kubeconfig)
                    .args(["--addr", &replica.hints.to_string()])
                    .arg("--ca-file")
                    .arg(&replica.ca)
                    .args(command)
                    .kill_on_drop(true)
                    .output()
                    .await
                    .expect("run it");
                let text = String::from_utf8_lossy(&output.stdout);
                let complaint = String::from_utf8_lossy(&output.stderr);
                assert!(
                    output.status.success() && text.contains(NODE),
                    "{text}{complaint}"
                );
            }
        }
    }
}

#[tokio::test(flavor = "multi_thread")]
#[ignore = "needs programs of an earlier commit: cargo xtask test --long upgrade"]
async fn upgrade_and_rollback_fail_no_write_and_versions_understand_each_other() {
    let (old, stand) = (earlier(), Stand::start_with(ClusterOptions::default()).await);
    let new = Version {
        webhook: stand.programs.webhook.clone(),
        agent: stand.programs.agent.clone(),
        cli: stand.programs.cli.clone(),
    };
    let mut replicas = VersionedReplicas::start(&stand, &old).await;
    // The objects without pods come first.
    let [first, _] = &replicas.running;
    register(&stand.client, &replicas.service.url(), &first.ca, &first.served)
        .await
        .expect("register");
    stand.create_node(NODE, "4", "8Gi").await;
    stand.annotate_ratio(NODE, 150).await;
    node_writer::until_amplified(&stand.nodes(), NODE).await;
    let (stop_tx, stop) = watch::channel(false);
    let mut writers = JoinSet::new();
    writers.spawn(node_writer::write(stand.nodes(), NODE, stop));

    let agent = replicas.report(&stand, &old).await;
    replicas.show(&stand, &old).await;
    replicas.show(&stand, &new).await;
    drop(agent);
    replicas.roll(&stand, &new).await;
    let agent = replicas.report(&stand, &old).await;
    replicas.show(&stand, &old).await;
    drop(agent);
    let agent = replicas.report(&stand, &new).await;
    replicas.show(&stand, &new).await;
    drop(agent);
    replicas.roll(&stand, &old).await;
    let agent = replicas.report(&stand, &new).await;
    replicas.show(&stand, &new).await;
    drop(agent);

    stop_tx.send_replace(true);
    while let Some(written) = writers.join_next().await {
        let writes = written.expect("no write fails");
        assert!(writes > 100, "{writes} writes are no load");
    }
}
