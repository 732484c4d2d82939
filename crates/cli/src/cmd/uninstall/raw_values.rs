//! [`RawValues`]: the step that restores raw allocatable: by the webhook, or by the kubelets if no webhook answers.

use std::{
    collections::BTreeMap,
    io::{self, Write},
    time::Duration,
};

use headroom_domain::resource::{PerResource, Resource};
use k8s_openapi::api::core::v1::Node;
use kube::{Api, api::ListParams};
use tokio::time::{Instant, sleep};

use super::{LinePrinter, Target};
use crate::{
    args::Format,
    cmd::off::{self, OffEnd, OffResult, Remains},
    connect,
    error::Error,
    human_numbers::short,
    rights,
    screen::Screen,
    uninstall::{UninstallError, object_kind as kinds, removal_line::RemovalLine, survey::Survey},
};

const POLL_EVERY: Duration = Duration::from_secs(1);
/// Time after which the webhook counts as absent. A replica that restarts, or another one, answers before.
const PATIENCE: Duration = Duration::from_secs(15);
/// Part of the API server's message about an entry that fails closed.
const FAILED_CLOSED: &str = "failed calling webhook";

#[derive(Debug, Clone, Copy)]
pub(super) struct RawValues {
    pub(super) wait: Duration,
    /// True to continue with nodes that are not raw.
    pub(super) is_forced: bool,
}

/// Result of the step with a webhook.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum RawOutcome {
    /// All nodes are raw, or the user accepts that some are not.
    Done,
    /// No webhook answers. The kubelets restore raw values once the policies are deleted.
    Unanswered,
}

/// Predicts the step, with the lines of `off`.
pub(super) async fn predict<W: Write>(
    target: &Target,
    printer: &mut LinePrinter<'_, W>,
) -> Result<OffEnd, Error> {
    let output = (&mut *printer.screen, printer.format);
    off::predict(&target.client, target.by_hand.clone(), output).await
}

impl RawValues {
    /// Switches nodes off and waits for the webhook.
    pub(super) async fn restore<W: Write>(
        self,
        target: &Target,
        survey: &Survey,
        printer: &mut LinePrinter<'_, W>,
    ) -> Result<RawOutcome, Error> {
        let is_called = survey
            .deletable()
            .any(|found| found.object.kind == &kinds::MUTATING_CONFIGURATION);
        if !is_called && survey.leftovers.is_empty() {
            return Ok(RawOutcome::Done);
        }
        // Mode `off` would release nodes from the floor, so a webhook must answer first.
        let end = match self.switched_off(target, printer).await {
            Ok(None) => return self.unless_held(target, "no webhook answers".to_owned()).await,
            Ok(Some(end)) => end,
            // A status configuration that fails closed and that no replica answers. Without it nodes can be written.
            Err(error) if is_failed_call(&error) => return self.unless_held(target, error.to_string()).await,
            Err(error) => return Err(error),
        };
        match end {
            OffEnd::Restored { .. } => Ok(RawOutcome::Done),
            end @ OffEnd::Waiting { .. } => {
                self.accept(end.to_string(), printer)?;
                Ok(RawOutcome::Done)
            }
            OffEnd::Unanswered { .. } => self.unless_held(target, "no webhook answers".to_owned()).await,
        }
    }

    /// Switches the nodes off; `None` without any change if no webhook answers. An API server calls a deleted webhook for
    /// some moments, so a failed call is repeated.
    async fn switched_off<W: Write>(
        self,
        target: &Target,
        printer: &mut LinePrinter<'_, W>,
    ) -> Result<Option<OffEnd>, Error> {
        let deadline = Instant::now() + PATIENCE;
        loop {
            let unseen = &mut Screen::plain(io::sink());
            let output = (unseen, Format::Table);
            let answer = off::predict(&target.client, target.by_hand.clone(), output).await;
            let is_last = Instant::now() >= deadline;
            match answer {
                Ok(OffEnd::Unanswered { .. }) if is_last => return Ok(None),
                Ok(OffEnd::Unanswered { .. }) => {}
                Err(error) if is_failed_call(&error) && !is_last => {}
                Err(error) => return Err(error),
                Ok(OffEnd::Restored { .. } | OffEnd::Waiting { .. }) => break,
            }
            sleep(POLL_EVERY).await;
        }
        let deadline = Instant::now() + PATIENCE;
        loop {
            let output = (&mut *printer.screen, printer.format);
            let by_hand = target.by_hand.clone();
            let end = off::restore(&target.client, by_hand, (self.wait, PATIENCE), output).await;
            match end {
                Err(error) if is_failed_call(&error) && Instant::now() < deadline => sleep(POLL_EVERY).await,
                end => return end.map(Some),
            }
        }
    }

    /// Without the webhook nothing keeps allocatable at what the bound pods need, so such nodes stop the removal.
    async fn unless_held(self, target: &Target, reason: String) -> Result<RawOutcome, Error> {
        if self.is_forced {
            return Ok(RawOutcome::Unanswered);
        }
        let bound = connect::bound_requests(&target.client).await?;
        let held: Vec<String> = results(target)
            .await?
            .iter()
            .filter_map(|result| needed(result, &bound))
            .collect();
        if held.is_empty() {
            return Ok(RawOutcome::Unanswered);
        }
        let end = format!(
            "{reason}, and some nodes cannot return to raw: {}",
            held.join(", ")
        );
        Err(UninstallError::NotRaw { end }.into())
    }

    /// Waits until the kubelets have written raw values.
    pub(super) async fn await_kubelets<W: Write>(
        self,
        target: &Target,
        printer: &mut LinePrinter<'_, W>,
    ) -> Result<(), Error> {
        let deadline = Instant::now() + self.wait;
        loop {
            let results = results(target).await?;
            let waiting = results.iter().filter(|result| !is_raw(result));
            let waiting: Vec<&str> = waiting.map(|result| result.node.as_str()).collect();
            if waiting.is_empty() {
                return Ok(());
            }
            if Instant::now() >= deadline {
                let end = format!(
                    "the kubelets have not written raw values of {} yet",
                    waiting.join(", ")
                );
                return self.accept(end, printer);
            }
            sleep(POLL_EVERY).await;
        }
    }

    /// Nodes that are not raw are an error unless the user accepts them.
    fn accept<W: Write>(self, end: String, printer: &mut LinePrinter<'_, W>) -> Result<(), Error> {
        if self.is_forced {
            return printer.print(&RemovalLine::Warning(end));
        }
        Err(UninstallError::NotRaw { end }.into())
    }
}

/// Allocatable and recorded raw values of all nodes.
async fn results(target: &Target) -> Result<Vec<OffResult>, Error> {
    let nodes: Api<Node> = Api::all(target.client.clone());
    let listed = nodes.list(&ListParams::default()).await;
    let listed = listed.map_err(|source| Error::api(&rights::READ_NODES, source))?;
    Ok(listed
        .iter()
        .map(|node| OffResult::new(node, Remains::Unanswered))
        .collect())
}

/// True unless a resource is above its recorded raw value.
fn is_raw(result: &OffResult) -> bool {
    Resource::ALL.into_iter().all(|resource| {
        let [stored, raw] = [result.allocatable, result.raw].map(|amounts| *amounts.get(resource));
        raw.is_none() || stored <= raw
    })
}

/// The node, and the requests of its pods that exceed raw.
fn needed(result: &OffResult, bound: &BTreeMap<String, PerResource<u64>>) -> Option<String> {
    let bound = bound.get(&result.node)?;
    let exceeding = Resource::ALL.into_iter().filter_map(|resource| {
        let (needed, raw) = (*bound.get(resource), (*result.raw.get(resource))?);
        let [needed_text, raw_text] = [needed, raw].map(|amount| short(resource, i128::from(amount)));
        (needed > raw).then(|| format!("{resource} {needed_text} of {raw_text}"))
    });
    let exceeding: Vec<String> = exceeding.collect();
    (!exceeding.is_empty()).then(|| format!("{} (its bound pods need {})", result.node, exceeding.join(", ")))
}

fn is_failed_call(error: &Error) -> bool {
    matches!(error, Error::Cluster { .. }) && error.to_string().contains(FAILED_CLOSED)
}
