//! Writes records of `tracing` and the `log` crate to standard error, as plain text or JSON.

mod limit;
mod queue;

use std::{
    env,
    error::Error,
    fmt,
    io::{self, IsTerminal as _},
    sync::OnceLock,
    time::Duration,
};

use tracing::{Level, Metadata, Subscriber, level_filters::LevelFilter};
use tracing_subscriber::{
    EnvFilter, Registry,
    filter::{FilterFn, filter_fn},
    fmt::MakeWriter,
    layer::SubscriberExt as _,
    registry, reload,
    util::{SubscriberInitExt as _, TryInitError},
};

pub use self::limit::LineLimit;
use self::queue::LineQueue;

/// Lines of this process that wait for standard error, if it does not write them at once.
static QUEUE: OnceLock<LineQueue> = OnceLock::new();

/// Format in which log lines are written.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, clap::ValueEnum)]
pub enum Format {
    /// One line of plain text per record.
    #[default]
    Plain,
    /// One JSON object per line.
    Json,
}

/// Log levels by target, for example `info,headroom_webhook=debug`.
#[derive(Clone, Debug, PartialEq, Eq, serde::Deserialize)]
#[serde(try_from = "String")]
pub struct Filter(String);

/// Handle of the log levels in force, which can be changed at run time.
#[derive(Clone, Debug)]
pub struct Levels(reload::Handle<EnvFilter, Registry>);

/// Reasons why logging cannot start.
#[derive(Debug, thiserror::Error)]
pub enum LogError {
    /// The filter cannot be parsed, or one part has no valid level.
    #[error("log filter {filter:?}: {reason}")]
    Filter {
        /// Invalid part of the filter.
        filter: String,
        /// Reason why the part is refused.
        reason: String,
    },
    /// Another subscriber or logger is already installed.
    #[error("logging is already set up in this process")]
    Installed(#[source] TryInitError),
    /// The thread that writes log lines cannot start.
    #[error("cannot start the thread that writes log lines")]
    Thread(#[source] io::Error),
}

/// Displays an error with its sources, joined by colons: `cannot read key: permission denied`.
#[derive(Debug)]
pub struct Chain<'a>(&'a (dyn Error + 'static));

/// Crate whose records below ERROR contain response bodies of the API server: a TokenReview contains a token.
const API_CLIENT: &str = "kube_client";

const LEVELS: [&str; 6] = ["off", "error", "warn", "info", "debug", "trace"];

impl std::str::FromStr for Filter {
    type Err = LogError;

    fn from_str(text: &str) -> Result<Self, LogError> {
        let refuse = |part: &str, reason: &str| {
            Err(LogError::Filter {
                filter: part.to_owned(),
                reason: reason.to_owned(),
            })
        };
        for part in text.split(',').map(str::trim) {
            // The parser below reads a misspelt level as a target, which would hide all other records.
            if !part.contains('=') && !LEVELS.contains(&part) {
                return refuse(
                    part,
                    "neither a level (off, error, warn, info, debug, trace) nor target=level",
                );
            }
        }
        match EnvFilter::builder().parse(text) {
            Ok(_) => Ok(Self(text.to_owned())),
            Err(error) => refuse(text, &error.to_string()),
        }
    }
}

impl TryFrom<String> for Filter {
    type Error = LogError;

    fn try_from(text: String) -> Result<Self, LogError> {
        text.parse()
    }
}

impl Filter {
    // Parsed before, when the filter was created.
    fn levels(&self) -> EnvFilter {
        EnvFilter::builder().parse_lossy(&self.0)
    }
}

impl Levels {
    /// Puts another filter in force.
    pub fn set(&self, filter: &Filter) {
        // Fails only after the subscriber was dropped, when nothing is logged any more.
        let _is_set = self.0.reload(filter.levels()).is_ok();
        // The `log` crate drops records above this level before the subscriber sees them.
        log::set_max_level(highest());
    }
}

/// Highest level enabled for any target, as the type of the `log` crate.
fn highest() -> log::LevelFilter {
    match LevelFilter::current().into_level() {
        None => log::LevelFilter::Off,
        Some(Level::ERROR) => log::LevelFilter::Error,
        Some(Level::WARN) => log::LevelFilter::Warn,
        Some(Level::INFO) => log::LevelFilter::Info,
        Some(Level::DEBUG) => log::LevelFilter::Debug,
        Some(Level::TRACE) => log::LevelFilter::Trace,
    }
}

impl fmt::Display for Filter {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.0)
    }
}

impl fmt::Display for Chain<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let mut shown = self.0.to_string();
        let mut next = self.0.source();
        while let Some(cause) = next {
            let text = cause.to_string();
            if !shown.contains(&text) {
                shown = format!("{shown}: {text}");
            }
            next = cause.source();
        }
        f.write_str(&shown)
    }
}

/// Returns the error with its sources for a log line or a message. A source is left out if the text before it already
/// contains its message, as in errors of kube and aya.
pub fn chain<'a>(error: &'a (dyn Error + 'static)) -> Chain<'a> {
    Chain(error)
}

/// Filter that drops records with bodies of requests or responses, whatever the user's filter enables.
fn without_bodies() -> FilterFn {
    filter_fn(|record: &Metadata<'_>| {
        let crate_name = record.target().split("::").next();
        crate_name != Some(API_CLIENT) || *record.level() == Level::ERROR || record.is_span()
    })
}

/// Sends all records of this process, from `tracing` and from `log`, to standard error, in colour only on a terminal.
///
/// # Errors
/// Logging is already set up in this process.
pub fn init(format: Format, filter: &Filter) -> Result<Levels, LogError> {
    install(format, filter, io::stderr)
}

/// Like [`init`], but a thread writes the lines: no caller waits for standard error. Lines that it accepts too slowly are
/// dropped and counted. Call [`flush`] before the process ends.
///
/// # Errors
/// Logging is already set up in this process, or the thread cannot start.
pub fn init_queued(format: Format, filter: &Filter) -> Result<Levels, LogError> {
    let queue = LineQueue::default();
    let levels = install(format, filter, queue.clone())?;
    queue.start(io::stderr()).map_err(LogError::Thread)?;
    QUEUE.get_or_init(|| queue);
    Ok(levels)
}

/// Waits until the lines of [`init_queued`] are written, at most for `limit`.
pub fn flush(limit: Duration) {
    if let Some(queue) = QUEUE.get() {
        queue.flush(limit);
    }
}

fn install<W>(format: Format, filter: &Filter, writer: W) -> Result<Levels, LogError>
where
    W: for<'a> MakeWriter<'a> + Send + Sync + 'static,
{
    let wants_color =
        io::stderr().is_terminal() && env::var_os("NO_COLOR").is_none_or(|value| value.is_empty());
    let (subscriber, levels) = subscriber(format, filter, wants_color, writer);
    subscriber.try_init().map_err(LogError::Installed)?;
    Ok(levels)
}

fn subscriber<W>(
    format: Format,
    filter: &Filter,
    wants_color: bool,
    writer: W,
) -> (Box<dyn Subscriber + Send + Sync>, Levels)
where
    W: for<'a> MakeWriter<'a> + Send + Sync + 'static,
{
    let (levels, handle) = reload::Layer::new(filter.levels());
    let lines = tracing_subscriber::fmt::layer()
        .with_writer(writer)
        // They would be printed to standard error, with a panic if it is closed.
        .log_internal_errors(false);
    let subscriber: Box<dyn Subscriber + Send + Sync> = match format {
        Format::Plain => Box::new(
            registry()
                .with(levels)
                .with(without_bodies())
                .with(lines.with_ansi(wants_color)),
        ),
        Format::Json => {
            let json = lines
                .json()
                .flatten_event(true)
                .with_current_span(false)
                .with_span_list(true);
            Box::new(registry().with(levels).with(without_bodies()).with(json))
        }
    };
    (subscriber, Levels(handle))
}

#[cfg(test)]
mod tests {
    use std::sync::{Arc, Mutex};

    use rstest::rstest;
    use tracing::{debug, info, info_span, subscriber::with_default};

    use super::*;

    #[derive(Clone, Default)]
    struct Lines(Arc<Mutex<Vec<u8>>>);

    impl io::Write for Lines {
        fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
            self.0.lock().unwrap().write(bytes)
        }

        fn flush(&mut self) -> io::Result<()> {
            Ok(())
        }
    }

    fn logged(format: Format, filter: &str, records: impl FnOnce()) -> String {
        let lines = Lines::default();
        let writer = lines.clone();
        let filter = filter.parse().unwrap();
        let (subscriber, _levels) = subscriber(format, &filter, false, move || writer.clone());
        with_default(subscriber, records);
        String::from_utf8(lines.0.lock().unwrap().clone()).unwrap()
    }

    #[test]
    fn json_lines_carry_fields_and_spans() {
        let text = logged(Format::Json, "info", || {
            info_span!("review", uid = "u1").in_scope(|| info!(step = "profile", "acted"));
        });
        let line: serde_json::Value = serde_json::from_str(&text).unwrap();
        assert_eq!(
            (&line["message"], &line["step"]),
            (&"acted".into(), &"profile".into())
        );
        assert_eq!(
            (&line["level"], &line["spans"][0]["uid"]),
            (&"INFO".into(), &"u1".into())
        );
    }

    #[test]
    fn plain_lines_have_no_colour_codes_without_a_terminal() {
        let text = logged(Format::Plain, "info", || info!(step = "profile", "acted"));
        assert!(
            text.ends_with("acted step=\"profile\"\n") && !text.contains('\x1b'),
            "{text:?}"
        );
    }

    #[test]
    fn a_filter_lets_through_only_what_it_names() {
        let records = || {
            debug!("mine");
            debug!(target: "other", "theirs");
        };
        let text = logged(Format::Plain, "info,headroom_kit=debug", records);
        assert!(text.contains("mine") && !text.contains("theirs"), "{text}");
    }

    #[rstest]
    #[case("trace")]
    #[case("off,kube_client::client=trace")]
    #[case("[HTTP]=trace")]
    fn api_client_records_with_bodies_are_never_logged(#[case] filter: &str) {
        let text = logged(Format::Json, filter, || {
            tracing::trace_span!(target: "kube_client::client::builder", "HTTP").in_scope(|| {
                tracing::warn!(target: "kube_client::client", "{{\"token\": \"secret\"}}");
                debug!(target: "kube_client", "secret");
                tracing::error!(target: "kube_client::client", "no answer");
                debug!(target: "kube_clients", "of another crate");
            });
        });
        assert!(!text.contains("secret"), "{text}");
        assert!(text.contains("no answer"), "{text}");
        assert_eq!(
            text.contains("of another crate"),
            !filter.starts_with("off"),
            "{text}"
        );
    }

    #[test]
    fn levels_can_be_changed_while_records_are_written() {
        let lines = Lines::default();
        let writer = lines.clone();
        let filter = "info".parse().unwrap();
        let (subscriber, levels) = subscriber(Format::Plain, &filter, false, move || writer.clone());
        with_default(subscriber, || {
            debug!("before");
            levels.set(&"debug".parse().unwrap());
            debug!("after");
        });
        let text = String::from_utf8(lines.0.lock().unwrap().clone()).unwrap();
        assert!(text.contains("after") && !text.contains("before"), "{text}");
    }

    #[rstest]
    #[case("inof", "inof")]
    #[case("info,headroom_kit", "headroom_kit")]
    #[case("headroom_kit=loud", "headroom_kit=loud")]
    #[case("", "")]
    fn a_filter_without_meaning_is_refused(#[case] text: &str, #[case] offending: &str) {
        let error = text.parse::<Filter>().unwrap_err().to_string();
        assert!(
            error.starts_with(&format!("log filter {offending:?}: ")),
            "{error}"
        );
    }

    #[derive(Debug, thiserror::Error)]
    #[error("{text}")]
    struct Link {
        text: &'static str,
        source: Option<Box<Link>>,
    }

    #[rstest]
    #[case::alone(&["a"], "a")]
    #[case::all(&["cannot watch", "client error (Connect)", "wrong name"], "cannot watch: client error (Connect): wrong name")]
    #[case::repeated(&["service: connect", "connect", "connect", "refused"], "service: connect: refused")]
    #[case::repeated_from_further_out(&["read: refused", "connect", "refused"], "read: refused: connect")]
    #[case::empty(&["a", "", "b"], "a: b")]
    fn a_chain_shows_every_source_once(#[case] texts: &[&'static str], #[case] shown: &str) {
        let link = texts.iter().rev().fold(None, |source, text| {
            let source = source.map(Box::new);
            Some(Link { text, source })
        });
        assert_eq!(chain(&link.unwrap()).to_string(), shown);
    }
}
