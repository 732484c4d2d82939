//! `uninstall`: restores raw allocatable and deletes all objects of an installation, in an order in which no write of
//! the cluster waits for the webhook. Each step can be repeated.

mod raw_values;
mod removal;

use std::{io::Write, time::Duration};

use headroom_domain::installation::{Installation, Namespace};
use kube::Client;

use self::{raw_values::RawValues, removal::Removal};
use super::{
    Session,
    off::{ByHand, OffEnd},
};
use crate::{
    args::{ConnectArgs, Format},
    connect,
    error::Error,
    screen::Screen,
    uninstall::{
        UninstallError,
        inventory::{OwnObject, inventory},
        permissions,
        removal_line::{RemovalEnd, RemovalLine, RemovalStep},
        survey::Survey,
    },
};

/// Command that runs the plan.
const COMMAND: &str = "kubectl headroom uninstall --yes";

/// Restore raw allocatable on all nodes and delete everything of Headroom from the cluster.
#[derive(Debug, clap::Args)]
#[command(after_help = "\
Prints the plan, and runs it with --yes. The order: webhook configurations that fail closed; raw allocatable on all nodes, as by
`off --now`; the other webhook configurations and the policies; the webhook and the agents; annotations of nodes; all other
objects; both namespaces. If no webhook answers, the policies are deleted before raw allocatable, which the kubelets then restore.

Requires the permissions of a cluster administrator, which it checks first, and no connection to the webhook. It can be repeated
after any error; if nothing is left, it reports that. Objects of Headroom's names without its label, and a namespace with objects of
other users, stay and are listed. CustomResourceDefinitions of Koordinator and folders on nodes stay.

Exit code 0: the plan was printed, or nothing is left. 1: something is left, with the reason.

Examples:
  # Print the plan
  kubectl headroom uninstall --check

  # Before `helm uninstall --no-hooks`
  kubectl headroom uninstall --yes --keep-objects

  kubectl headroom uninstall --yes --wait-seconds 600")]
#[expect(clippy::struct_excessive_bools, reason = "each is a flag of its own")]
pub(crate) struct UninstallArgs {
    /// Only print the plan; the default.
    #[arg(long, env = "HEADROOM_CHECK", conflicts_with = "yes")]
    check: bool,
    /// Run the plan.
    #[arg(long, env = "HEADROOM_YES")]
    yes: bool,
    /// Continue although the pods of a node need more than raw allocatable or its kubelet does not restore it. A kubelet
    /// that restarts then fails pods that fit only the amplified value.
    #[arg(long, env = "HEADROOM_FORCE")]
    force: bool,
    /// Leave the objects that do not act, and the namespaces, to the tool that installed them, such as Helm.
    #[arg(long, env = "HEADROOM_KEEP_OBJECTS")]
    keep_objects: bool,
    /// Seconds to wait until all nodes are raw.
    #[arg(
        long,
        env = "HEADROOM_WAIT_SECONDS",
        value_name = "SECONDS",
        default_value_t = 300
    )]
    wait_seconds: u64,
    /// Namespace of the agents.
    #[arg(long, env = "HEADROOM_AGENT_NAMESPACE", value_name = "NAME", default_value_t = Installation::default().agent_namespace)]
    agent_namespace: Namespace,
}

/// Prints lines as text or JSON.
struct LinePrinter<'s, W> {
    screen: &'s mut Screen<W>,
    format: Format,
}

/// Installation to remove, and the client with which it is removed.
struct Target {
    client: Client,
    installation: Installation,
    own: Vec<OwnObject>,
    /// For the messages of `off`.
    by_hand: ByHand,
}

impl UninstallArgs {
    pub(super) async fn run<W: Write>(self, session: Session<'_, W>) -> Result<(), Error> {
        let Session {
            format,
            screen,
            connect,
            ..
        } = session;
        let target = Target::new(connect::api(&connect).await?, &connect, &self);
        self.run_on(&target, LinePrinter { screen, format }).await
    }

    async fn run_on<W: Write>(self, target: &Target, mut printer: LinePrinter<'_, W>) -> Result<(), Error> {
        let Target {
            client,
            installation,
            own,
            ..
        } = target;
        let missing = permissions::missing(client, installation, own).await?;
        if !missing.is_empty() {
            return Err(UninstallError::MissingRights { missing }.into());
        }
        let survey = target.survey().await?;
        for line in RemovalLine::notes(&survey) {
            // The tool that warnings are about runs this command.
            if !(self.keep_objects && matches!(line, RemovalLine::Warning(_))) {
                printer.print(&line)?;
            }
        }
        if survey.left().is_empty() {
            return printer.print(&RemovalLine::End(RemovalEnd::Nothing));
        }
        if !self.yes {
            return print_plan(target, &survey, &mut printer).await;
        }
        let raw_values = RawValues {
            wait: Duration::from_secs(self.wait_seconds),
            is_forced: self.force,
        };
        let mut removal = Removal {
            target,
            raw_values,
            printer: &mut printer,
        };
        removal.run(&survey).await?;
        let left = target.survey().await?.left();
        if left.is_empty() {
            return printer.print(&RemovalLine::End(if self.keep_objects {
                RemovalEnd::OutOfForce
            } else {
                RemovalEnd::Removed
            }));
        }
        Err(UninstallError::Left { left }.into())
    }
}

/// Prints all steps with the objects that they would delete.
async fn print_plan<W: Write>(
    target: &Target,
    survey: &Survey,
    printer: &mut LinePrinter<'_, W>,
) -> Result<(), Error> {
    for step in RemovalStep::ALL {
        printer.print(&RemovalLine::Step(step))?;
        for found in removal::of_step(survey, step) {
            printer.print(&RemovalLine::object(found, false))?;
        }
        match step {
            RemovalStep::RawValues => {
                let end = raw_values::predict(target, printer).await?;
                if let OffEnd::Unanswered { .. } = end {
                    let text =
                        "no webhook answers: step 3 comes first, and the kubelets restore raw allocatable";
                    printer.print(&RemovalLine::Warning(text.to_owned()))?;
                }
            }
            RemovalStep::Nodes => {
                for left in &survey.leftovers {
                    printer.print(&RemovalLine::node(left, false))?;
                }
            }
            RemovalStep::FailClosed
            | RemovalStep::Admission
            | RemovalStep::Workloads
            | RemovalStep::Objects
            | RemovalStep::Namespaces => {}
        }
    }
    printer.print(&RemovalLine::End(RemovalEnd::Planned { command: COMMAND }))
}

impl Target {
    fn new(client: Client, connect: &ConnectArgs, args: &UninstallArgs) -> Self {
        let installation = Installation {
            agent_namespace: args.agent_namespace.clone(),
            ..connect.installation()
        };
        Self {
            client,
            own: own(&installation, args.keep_objects),
            by_hand: ByHand {
                kubectl: connect.kubectl(),
                namespace: installation.namespace.to_string(),
                node: None,
            },
            installation,
        }
    }

    async fn survey(&self) -> Result<Survey, Error> {
        Survey::read(&self.client, &self.installation, &self.own).await
    }
}

/// Objects to delete.
fn own(installation: &Installation, are_objects_kept: bool) -> Vec<OwnObject> {
    let mut own = inventory(installation);
    own.retain(|object| !are_objects_kept || object.stage.acts());
    own
}

impl<W: Write> LinePrinter<'_, W> {
    fn print(&mut self, line: &RemovalLine) -> Result<(), Error> {
        self.screen.print(&match self.format {
            Format::Table => format!("{line}\n"),
            Format::Json => format!("{}\n", line.json()),
        })
    }
}

#[cfg(test)]
mod tests;
