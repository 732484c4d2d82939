//! kubectl headroom: asks a webhook what it knows of the nodes, and shows it to people or machines.
//!
//! ```text
//! args -> connect (TLS, token) -> cmd::{top, node, explain, hints} -> view::Node -> output -> screen
//!      -> connect (kubeconfig) -> cmd::off -> Node objects -----------------------------^
//!      -> connect (Prometheus) or files -> advise -> Advice ------------------------^
//!      -> agent (unix socket) -> cmd::agent -> messages of the agent -------------------^
//! ```
#![forbid(unsafe_code)]

pub mod advise;
pub mod agent;
pub mod amount;
pub mod args;
pub mod connect;
pub mod derivation;
pub mod error;
pub mod output;
pub mod screen;
pub mod view;

mod cmd;

use std::{io::Write, time::Duration};

use clap::CommandFactory as _;

use crate::{
    args::{Args, Command, Format},
    error::Error,
    screen::Screen,
};

/// Runs one command and writes its answer.
///
/// # Errors
/// See [`Error`].
pub async fn run<W: Write>(args: Args, screen: &mut Screen<W>) -> Result<(), Error> {
    let Args {
        connect,
        output,
        json,
        command,
    } = args;
    let output = if json { Format::Json } else { output };
    match command {
        Command::Top { once: true, node } => {
            cmd::top::once(&mut connect::open(&connect).await?, node, output, screen).await
        }
        Command::Top { once: false, node } => {
            cmd::top::live(&mut connect::open(&connect).await?, node, output, screen).await
        }
        Command::Node { name } => {
            cmd::node::node(&mut connect::open(&connect).await?, name, output, screen).await
        }
        Command::Explain { name } => {
            cmd::explain::explain(&mut connect::open(&connect).await?, name, output, screen).await
        }
        Command::Hints { node } => {
            cmd::hints::hints(&mut connect::open(&connect).await?, node, output, screen).await
        }
        Command::Off {
            now,
            node,
            wait_seconds,
        } => {
            let order = cmd::off::OffRequest {
                node,
                now,
                wait: Duration::from_secs(wait_seconds),
            };
            cmd::off::off(connect::api(&connect).await?, order, output, screen).await
        }
        Command::Advise(args) => cmd::advise::advise(&connect, *args, output, screen).await,
        Command::Agent(args) => cmd::agent::agent(args, output, screen).await,
        Command::Completions { shell } => {
            let mut script = Vec::new();
            clap_complete::generate(shell, &mut Args::command(), "kubectl-headroom", &mut script);
            screen.print(&String::from_utf8_lossy(&script))
        }
    }
}
