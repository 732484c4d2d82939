//! Building blocks of every Headroom process: arguments, logs, metrics, admin port, TLS, supervision.
//!
//! A process combines them in this order, so that it is observable before it does any work:
//!
//! ```no_run
//! use std::time::{Duration, SystemTime};
//!
//! use headroom_kit::{
//!     admin::{Admin, Readiness},
//!     args::{AdminArgs, LogArgs, TlsArgs},
//!     metric::Catalogue,
//!     serve::{Limits, Listener},
//!     supervise::{Grace, Supervisor},
//!     tls::{self, CertStore},
//! };
//!
//! async fn run(log: LogArgs, admin: AdminArgs, tls: TlsArgs) -> Result<(), Box<dyn std::error::Error>> {
//!     tls::install_provider();
//!     log.init()?;
//!     let exporter = Catalogue::new(&[])?.install()?;
//!     let mut supervisor = Supervisor::new()?;
//!     let shutdown = supervisor.shutdown();
//!
//!     // Alive from here on, ready when every handle reports so.
//!     let readiness = Readiness::new();
//!     let serving = readiness.handle("serving");
//!     let page = Admin::new("example", exporter, readiness).local_json("/status", || "fine");
//!     supervisor.spawn("admin", page.serve(admin.bind().await?, shutdown.clone()));
//!
//!     let files = tls.files(&["example.test".to_owned()], SystemTime::now())?;
//!     let store = CertStore::load("example", files, SystemTime::now())?;
//!     let config = tls.server_config(store.clone(), &["http/1.1"])?;
//!     let poll = Duration::from_secs(30);
//!     supervisor.spawn("certificates", tls::watch(store, poll, shutdown.stopping().clone()));
//!
//!     let listener = Listener::bind("https", "[::]:9443".parse()?, Limits::default()).await?;
//!     let answer = |_request| async { http::Response::new("hello".to_owned()) };
//!     supervisor.spawn("https", listener.serve_http(Some(config), shutdown, answer));
//!     serving.ready();
//!
//!     let grace = Grace { linger: Duration::from_secs(5), deadline: Duration::from_secs(25) };
//!     Ok(supervisor.run(grace).await?)
//! }
//! ```
#![forbid(unsafe_code)]
#![deny(missing_docs)]

pub mod admin;
pub mod args;
pub mod config;
pub mod files;
pub mod gate;
pub mod log;
pub mod metric;
pub mod pace;
pub mod serve;
pub mod supervise;
pub mod tls;
pub mod watch;
