//! Test of the product as users run it: installed from the shipped manifests, webhook and agent are pods of a real node. One
//! installation serves all checks, because its start takes longer than most of them.
#![expect(
    clippy::expect_used,
    clippy::indexing_slicing,
    clippy::print_stdout,
    reason = "tests panic, because a returned error has no stack, and print their progress"
)]

mod amplification;
mod brake;
mod plugin;
mod refused_agent;
mod restarts;
mod security;
mod signals;
pub(crate) mod workload;

use std::time::Instant;

use e2e::product::{Product, ProductOptions};

use self::workload::Workload;

#[tokio::test(flavor = "multi_thread")]
async fn product_runs_as_pods_on_a_real_node() {
    let mut clock = Clock(Instant::now());
    let options = ProductOptions {
        changes: refused_agent::restricted(),
        ..ProductOptions::default()
    };
    let mut product = Product::apply(options).await;
    clock.passed("installation");
    refused_agent::pod_security_names_the_cause(&product).await;
    clock.passed("refused agent");
    security::pods_have_only_their_declared_rights(&product).await;
    security::restricted_namespace_refuses_privileged_pods(&product).await;
    clock.passed("security");
    signals::agent_measures_as_a_pod(&product).await;
    clock.passed("signals");

    let workload = Workload::start(&product).await;
    signals::agent_reports_the_pods_of_the_kubelet(&product).await;
    amplification::pending_pod_runs_on_the_amplified_node(&product, &workload).await;
    amplification::container_without_limit_reads_the_amplified_value(&product, &workload).await;
    clock.passed("amplification");
    plugin::commands_work_through_the_kubelet(&product).await;
    clock.passed("plugin");
    brake::load_withdraws_free_capacity_until_it_ends(&product, &workload).await;
    clock.passed("brake");
    restarts::restarted_kubelet_keeps_all_pods(&mut product, &workload).await;
    clock.passed("restarts");
    product.node.check().expect("all daemons run");
}

/// Prints the duration of each check, so that the output of a failed run shows the checks that passed.
struct Clock(Instant);

impl Clock {
    fn passed(&mut self, check: &str) {
        println!("{check}: passed in {:?}", self.0.elapsed());
        self.0 = Instant::now();
    }
}
