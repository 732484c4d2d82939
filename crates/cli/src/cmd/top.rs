//! `top`: prints a table of all nodes, once or kept current.

use std::{collections::HashMap, io::Write, time::Duration};

use serde_json::Value;
use tokio::{
    signal,
    time::{Instant, MissedTickBehavior, interval, sleep},
};

use super::Session;
use crate::{
    args::Format,
    connect::{self, Connection, NodeWatch},
    error::Error,
    output,
    screen::Screen,
    view::NodeView,
};

/// Ages are redrawn, and a lost webhook is asked again, this often.
const BEAT: Duration = Duration::from_secs(1);

/// Measured use, ratio, allocatable and brakes of all nodes, kept current.
#[derive(Debug, clap::Args)]
#[command(after_help = "\
On a terminal the table is redrawn in place until Ctrl-C; elsewhere, and with -o json, each new report is one line.

Examples:
  kubectl headroom top
  kubectl headroom top worker-1
  kubectl headroom top --once
  kubectl headroom top -o json | jq 'select(.brake_cpu > 0)'")]
pub(crate) struct TopArgs {
    /// Only this node.
    node: Option<String>,
    /// Print the table once and end.
    #[arg(long, env = "HEADROOM_ONCE")]
    once: bool,
}

impl TopArgs {
    pub(super) async fn run<W: Write>(self, session: Session<'_, W>) -> Result<(), Error> {
        let mut webhook = connect::open(&session.connect).await?;
        let Session { format, screen, .. } = session;
        // The first answer must come: an address or token that is wrong is no passing trouble.
        let nodes = webhook.list(self.node.as_deref()).await?;
        if !self.once {
            return live(&mut webhook, self.node.as_deref(), nodes, format, screen).await;
        }
        screen.print(&match format {
            Format::Table => output::top_table(&nodes),
            Format::Json => {
                let rows: Value = nodes.iter().map(output::row_json).collect();
                format!("{rows:#}\n")
            }
        })
    }
}

/// Follows the webhook until Ctrl-C; asks again when it goes away, but not when it refuses.
async fn live<W: Write>(
    webhook: &mut Connection,
    node: Option<&str>,
    nodes: Vec<NodeView>,
    format: Format,
    screen: &mut Screen<W>,
) -> Result<(), Error> {
    let mut picture = Picture {
        format,
        nodes: Vec::new(),
        since: Instant::now(),
        trouble: None,
    };
    picture.replace(nodes, screen)?;
    loop {
        let ended = tokio::select! {
            biased;
            interrupted = signal::ctrl_c() => return interrupted.map_err(Error::Write),
            ended = follow(webhook, node, &mut picture, screen) => ended,
        };
        match ended {
            Ok(()) => picture.trouble = Some("the webhook ended the stream".to_owned()),
            Err(error) if error.is_passing() => picture.trouble = Some(error.to_string()),
            Err(error) => return Err(error),
        }
        picture.draw(screen)?;
        tokio::select! {
            interrupted = signal::ctrl_c() => return interrupted.map_err(Error::Write),
            () = sleep(BEAT) => {}
        }
    }
}

/// Follows one stream to its end.
async fn follow<W: Write>(
    webhook: &mut Connection,
    node: Option<&str>,
    picture: &mut Picture,
    screen: &mut Screen<W>,
) -> Result<(), Error> {
    let mut watch: NodeWatch<'_> = webhook.watch(node).await?;
    let mut beat = interval(BEAT);
    beat.set_missed_tick_behavior(MissedTickBehavior::Delay);
    loop {
        tokio::select! {
            nodes = watch.next() => match nodes? {
                Some(nodes) => picture.replace(nodes, screen)?,
                None => return Ok(()),
            },
            _ = beat.tick() => picture.draw(screen)?,
        }
    }
}

/// What is on the screen.
struct Picture {
    format: Format,
    nodes: Vec<NodeView>,
    /// When `nodes` came.
    since: Instant,
    /// Why nothing newer comes.
    trouble: Option<String>,
}

impl Picture {
    fn replace<W: Write>(&mut self, nodes: Vec<NodeView>, screen: &mut Screen<W>) -> Result<(), Error> {
        let before = std::mem::replace(&mut self.nodes, nodes);
        self.since = Instant::now();
        self.trouble = None;
        if self.is_drawn(screen) {
            return self.draw(screen);
        }
        let before: HashMap<&str, &NodeView> = before.iter().map(|node| (node.name.as_str(), node)).collect();
        let has_changed = |node: &&NodeView| {
            before
                .get(node.name.as_str())
                .is_none_or(|old| node.differs_from(old))
        };
        for node in self.nodes.iter().filter(has_changed) {
            match self.format {
                Format::Table => screen.print(&output::top_lines(node))?,
                Format::Json => screen.print(&format!("{}\n", output::row_json(node)))?,
            }
        }
        Ok(())
    }

    /// Draws the table with the ages of this moment, where a table is drawn at all.
    fn draw<W: Write>(&self, screen: &mut Screen<W>) -> Result<(), Error> {
        if !self.is_drawn(screen) {
            return Ok(());
        }
        let nodes: Vec<NodeView> = self
            .nodes
            .iter()
            .map(|node| node.later(self.since.elapsed()))
            .collect();
        let mut text = output::top_table(&nodes);
        if let Some(trouble) = &self.trouble {
            text.extend([trouble, "; trying again\n"]);
        }
        screen.redraw(&text)
    }

    fn is_drawn<W: Write>(&self, screen: &Screen<W>) -> bool {
        self.format == Format::Table && screen.is_terminal()
    }
}
