//! [`Removal`]: runs the steps of an uninstallation.

use std::{io::Write, time::Duration};

use k8s_openapi::api::core::v1::Node;
use kube::{
    Api, Client,
    api::{DeleteParams, Patch, PatchParams, Preconditions},
};
use tokio::time::{Instant, sleep};

use super::{
    LinePrinter, Target,
    raw_values::{RawOutcome, RawValues},
};
use crate::{
    error::Error,
    rights,
    uninstall::{
        found_object::FoundObject,
        inventory::Stage,
        node_leftovers::NodeLeftovers,
        object_kind as kinds,
        removal_line::{RemovalLine, RemovalStep},
        survey::{Survey, leftovers},
    },
};

const POLL_EVERY: Duration = Duration::from_secs(1);
/// An API server evaluates a deleted policy, and calls a deleted webhook, for some moments: it learns of the deletion by
/// a watch.
const ADMISSION_LAG: Duration = Duration::from_secs(30);

pub(super) struct Removal<'r, 's, W> {
    pub(super) target: &'r Target,
    pub(super) raw_values: RawValues,
    pub(super) printer: &'r mut LinePrinter<'s, W>,
}

/// Objects that a step deletes.
pub(super) fn of_step(survey: &Survey, step: RemovalStep) -> impl Iterator<Item = &FoundObject> {
    survey.deletable().filter(move |found| step_of(found) == step)
}

/// Configurations that fail closed are deleted first, except that of the node status, without which the webhook restores no
/// node.
fn step_of(found: &FoundObject) -> RemovalStep {
    let object = &found.object;
    let is_of_status = object.kind == &kinds::MUTATING_CONFIGURATION
        && object
            .name
            .starts_with(headroom_domain::names::WEBHOOK_CONFIGURATION);
    match object.stage {
        Stage::Admission if !found.fail_entries.is_empty() && !is_of_status => RemovalStep::FailClosed,
        Stage::Admission => RemovalStep::Admission,
        Stage::Workloads => RemovalStep::Workloads,
        Stage::Objects => RemovalStep::Objects,
        Stage::Namespaces => RemovalStep::Namespaces,
    }
}

impl<W: Write> Removal<'_, '_, W> {
    /// Runs all steps.
    pub(super) async fn run(&mut self, survey: &Survey) -> Result<(), Error> {
        self.delete(survey, RemovalStep::FailClosed).await?;
        self.printer.print(&RemovalLine::Step(RemovalStep::RawValues))?;
        let outcome = self.raw_values.restore(self.target, survey, self.printer).await?;
        self.delete(survey, RemovalStep::Admission).await?;
        if let RawOutcome::Unanswered = outcome {
            self.raw_values.await_kubelets(self.target, self.printer).await?;
        }
        self.delete(survey, RemovalStep::Workloads).await?;
        self.clean_nodes().await?;
        self.delete(survey, RemovalStep::Objects).await?;
        self.delete(survey, RemovalStep::Namespaces).await
    }

    async fn delete(&mut self, survey: &Survey, step: RemovalStep) -> Result<(), Error> {
        self.printer.print(&RemovalLine::Step(step))?;
        for found in of_step(survey, step) {
            let FoundObject { object, uid, .. } = found;
            let api = object.kind.api(&self.target.client, object.namespace.as_deref());
            let params = DeleteParams::background().preconditions(Preconditions {
                uid: uid.clone(),
                resource_version: None,
            });
            match api.delete(&object.name, &params).await {
                Ok(_) => self.printer.print(&RemovalLine::object(found, true))?,
                Err(kube::Error::Api(status)) if status.code == 404 => {}
                Err(source) => {
                    return Err(Error::Cluster {
                        attempt: "delete an object of the installation",
                        reason: Box::new(source),
                    });
                }
            }
        }
        Ok(())
    }

    /// Removes annotations and conditions until two looks in a row find none: a webhook that was called before its end
    /// may write some again. The mode is removed last, so that no such write amplifies a node.
    async fn clean_nodes(&mut self) -> Result<(), Error> {
        self.printer.print(&RemovalLine::Step(RemovalStep::Nodes))?;
        let deadline = Instant::now() + ADMISSION_LAG;
        for is_mode_kept in [true, false] {
            let mut clean_looks = 0;
            while clean_looks < 2 {
                let left = leftovers(&self.target.client, is_mode_kept).await?;
                clean_looks = if left.is_empty() { clean_looks + 1 } else { 0 };
                for left in left {
                    match clean(&self.target.client, &left).await {
                        Ok(()) => self.printer.print(&RemovalLine::node(&left, true))?,
                        Err(kube::Error::Api(status)) if status.code == 404 => {}
                        // A policy that was just deleted still refuses.
                        Err(kube::Error::Api(_)) if Instant::now() < deadline => {}
                        Err(source) => return Err(Error::api(&rights::ANNOTATE_NODES, source)),
                    }
                }
                if Instant::now() >= deadline && clean_looks == 0 {
                    // The last survey reports the nodes.
                    return Ok(());
                }
                if clean_looks < 2 {
                    sleep(POLL_EVERY).await;
                }
            }
        }
        Ok(())
    }
}

async fn clean(client: &Client, left: &NodeLeftovers) -> kube::Result<()> {
    let nodes: Api<Node> = Api::all(client.clone());
    let params = PatchParams::default();
    if let Some(patch) = left.annotation_patch() {
        nodes.patch(&left.node, &params, &Patch::Merge(patch)).await?;
    }
    if let Some(patch) = left.status_patch() {
        nodes
            .patch_status(&left.node, &params, &Patch::Strategic(patch))
            .await?;
    }
    Ok(())
}
