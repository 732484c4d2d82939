//! Metric catalogue of a process: checks names against rules, describes metrics to the exporter, renders docs.

use std::{collections::BTreeMap, iter::once, sync::atomic::Ordering};

use metrics::{KeyName, Recorder as _, SharedString, with_local_recorder};
use metrics_exporter_prometheus::{Matcher, PrometheusBuilder, PrometheusHandle, PrometheusRecorder};

use super::{Cells, IS_INSTALLED, Kind, MOST_BUCKETS, Metric, process};

/// Every metric of a process, sorted by name.
#[derive(Clone, Debug)]
pub struct Catalogue {
    metrics: BTreeMap<&'static str, &'static Metric>,
}

/// Renders the recorded metrics for a scrape.
#[derive(Clone, Debug)]
pub struct Exporter {
    handle: PrometheusHandle,
    process: metrics_process::Collector,
    counted: Vec<(&'static Metric, &'static Cells)>,
}

/// Reasons why a catalogue is refused.
#[derive(Debug, thiserror::Error)]
pub enum MetricError {
    /// Two metrics have the same name.
    #[error("metric {name} is declared twice")]
    Duplicate {
        /// Name that both metrics have.
        name: &'static str,
    },
    /// A metric breaks a naming rule.
    #[error("metric {name}: {rule}")]
    Rule {
        /// Name of the offending metric.
        name: &'static str,
        /// The rule that the metric breaks.
        rule: &'static str,
    },
    /// The exporter refuses the buckets of a histogram.
    #[error("buckets of metric {name} are refused by the exporter")]
    Buckets {
        /// Name of the offending histogram.
        name: &'static str,
        /// Error that the exporter returned.
        #[source]
        source: metrics_exporter_prometheus::BuildError,
    },
    /// The process already records to another exporter.
    #[error("a metrics exporter is already installed in this process")]
    Installed,
}

impl Catalogue {
    /// Joins the metrics of several modules with the metrics of every process ([`process::METRICS`]).
    ///
    /// # Errors
    /// A name is declared twice, or a metric breaks a naming rule.
    pub fn new(rooms: &[&[&'static Metric]]) -> Result<Self, MetricError> {
        let mut metrics = BTreeMap::new();
        for metric in process::METRICS
            .iter()
            .chain(rooms.iter().copied().flatten())
            .copied()
        {
            if let Some(rule) = broken_rule(metric) {
                return Err(MetricError::Rule {
                    name: metric.name,
                    rule,
                });
            }
            if metrics.insert(metric.name, metric).is_some() {
                return Err(MetricError::Duplicate { name: metric.name });
            }
        }
        Ok(Self { metrics })
    }

    /// All metrics of the catalogue, by name.
    pub fn metrics(&self) -> impl Iterator<Item = &'static Metric> {
        self.metrics.values().copied()
    }

    /// Installs a Prometheus exporter for this process that knows every metric of the catalogue.
    ///
    /// # Errors
    /// An exporter is installed already, or it refuses buckets.
    pub fn install(&self) -> Result<Exporter, MetricError> {
        let (recorder, exporter) = self.recorder()?;
        match metrics::set_global_recorder(recorder) {
            Ok(()) => {
                IS_INSTALLED.store(true, Ordering::Relaxed);
                Ok(exporter)
            }
            Err(_refused) => Err(MetricError::Installed),
        }
    }

    /// Returns the recorder with its exporter without installing it: for tests with [`metrics::with_local_recorder`].
    ///
    /// # Errors
    /// The exporter refuses buckets.
    pub fn recorder(&self) -> Result<(PrometheusRecorder, Exporter), MetricError> {
        let mut builder = PrometheusBuilder::new();
        let is_recorded = |metric: &&Metric| metric.cells.is_none();
        let histograms = self.metrics().filter(|metric| metric.kind == Kind::Histogram);
        for metric in histograms.filter(is_recorded) {
            builder = builder
                .set_buckets_for_metric(Matcher::Full(metric.name.to_owned()), metric.buckets)
                .map_err(|source| MetricError::Buckets {
                    name: metric.name,
                    source,
                })?;
        }
        let recorder = builder.build_recorder();
        let exporter = Exporter {
            handle: recorder.handle(),
            process: metrics_process::Collector::default(),
            counted: self
                .metrics()
                .filter_map(|metric| Some((metric, metric.cells?)))
                .collect(),
        };
        for metric in self.metrics().filter(is_recorded) {
            let (name, help) = (
                KeyName::from_const_str(metric.name),
                SharedString::const_str(metric.help),
            );
            // Names contain the unit already; the exporter needs none.
            match metric.kind {
                Kind::Counter => recorder.describe_counter(name, None, help),
                Kind::Gauge => recorder.describe_gauge(name, None, help),
                Kind::Histogram => recorder.describe_histogram(name, None, help),
            }
        }
        with_local_recorder(&recorder, || exporter.process.describe());
        Ok((recorder, exporter))
    }

    /// Markdown table of all metrics.
    pub fn markdown(&self) -> String {
        let rows = self.metrics().map(
            |Metric {
                 name,
                 kind,
                 unit: _,
                 labels,
                 help,
                 buckets,
                 cells: _,
             }| {
                let kind = match kind {
                    Kind::Counter => "counter".to_owned(),
                    Kind::Gauge => "gauge".to_owned(),
                    Kind::Histogram => format!("histogram ({})", join(buckets.iter())),
                };
                let labels = join(labels.iter().map(|label| format!("`{label}`")));
                format!("| `{name}` | {kind} | {labels} | {help} |\n")
            },
        );
        once("| metric | kind | labels | meaning |\n|---|---|---|---|\n".to_owned())
            .chain(rows)
            .collect()
    }
}

impl Exporter {
    /// All recorded metrics and the state of this process, in the Prometheus text format.
    pub fn render(&self) -> String {
        self.process.collect();
        let counted = self.counted.iter();
        let counted = counted.map(|(metric, cells)| cells.counted(metric.buckets).text(metric));
        once(self.handle.render()).chain(counted).collect()
    }

    /// Folds recorded observations into buckets. Without it, memory grows between scrapes.
    pub fn upkeep(&self) {
        self.handle.run_upkeep();
    }
}

fn join(items: impl Iterator<Item = impl ToString>) -> String {
    items.map(|item| item.to_string()).collect::<Vec<_>>().join(", ")
}

/// Returns the first naming rule that a metric breaks.
fn broken_rule(metric: &Metric) -> Option<&'static str> {
    let Metric {
        name,
        kind,
        unit,
        labels,
        help,
        buckets,
        cells,
    } = *metric;
    let is_snake = |text: &str| {
        text.bytes()
            .all(|byte| byte.is_ascii_lowercase() || byte.is_ascii_digit() || byte == b'_')
    };
    let stem = match kind {
        Kind::Counter => match name.strip_suffix("_total") {
            Some(stem) => stem,
            None => return Some("the name of a counter ends in _total"),
        },
        Kind::Gauge | Kind::Histogram if name.ends_with("_total") => {
            return Some("only the name of a counter ends in _total");
        }
        Kind::Gauge | Kind::Histogram => name,
    };
    let ascends = buckets
        .iter()
        .zip(buckets.iter().skip(1))
        .all(|(low, high)| low < high);
    if !name.starts_with("headroom_") || !is_snake(name) {
        Some("a name is headroom_ and lower-case words joined by underscores")
    } else if !stem.ends_with(unit.suffix()) {
        Some("a name ends in its unit")
    } else if !labels
        .iter()
        .all(|label| is_snake(label) && *label != "le" && *label != "quantile")
    {
        Some("labels are lower-case words, and le and quantile are reserved")
    } else if labels
        .iter()
        .enumerate()
        .any(|(at, label)| labels.iter().skip(at + 1).any(|other| other == label))
    {
        Some("labels differ from each other")
    } else if !help.ends_with('.') || help.contains(['|', '\n']) {
        Some("help is one sentence that ends in a full stop")
    } else if kind == Kind::Histogram
        && (buckets.is_empty() || !ascends || !buckets.iter().all(|b| b.is_finite()))
    {
        Some("a histogram has finite, ascending buckets")
    } else if cells.is_some() && buckets.len() > MOST_BUCKETS {
        Some("a counted histogram has at most 16 buckets")
    } else {
        None
    }
}

#[cfg(test)]
mod tests {
    use rstest::rstest;

    use super::*;
    use crate::metric::{Counter, Gauge, Histogram, Unit};

    static SEEN: Counter<2> = Counter::new(
        "headroom_test_seen_total",
        Unit::Count,
        &["path", "result"],
        "Things seen.",
    );
    static DEPTH: Gauge = Gauge::new("headroom_test_depth", Unit::Count, &[], "How deep.");
    static TOOK: Histogram<1> = Histogram::new(
        "headroom_test_took_seconds",
        Unit::Seconds,
        &["path"],
        "How long.",
        &[0.1, 1.0],
    );

    #[test]
    fn recorded_values_are_rendered_with_help_labels_and_buckets() {
        let catalogue = Catalogue::new(&[&[SEEN.metric(), DEPTH.metric()], &[TOOK.metric()]]).unwrap();
        let (recorder, exporter) = catalogue.recorder().unwrap();
        let text = with_local_recorder(&recorder, || {
            SEEN.with(["/a", "ok"]).increment(2);
            DEPTH.with([]).set(1.5);
            TOOK.with(["/a"]).record(0.5);
            exporter.upkeep();
            exporter.render()
        });
        for line in [
            "# HELP headroom_test_seen_total Things seen.",
            "# TYPE headroom_test_seen_total counter",
            r#"headroom_test_seen_total{path="/a",result="ok"} 2"#,
            "headroom_test_depth 1.5",
            r#"headroom_test_took_seconds_bucket{path="/a",le="0.1"} 0"#,
            r#"headroom_test_took_seconds_bucket{path="/a",le="1"} 1"#,
            r#"headroom_test_took_seconds_bucket{path="/a",le="+Inf"} 1"#,
        ] {
            assert!(
                text.lines().any(|found| found == line),
                "no line {line} in\n{text}"
            );
        }
        assert!(
            text.contains("process_resident_memory_bytes "),
            "process metrics are missing in\n{text}"
        );
    }

    #[test]
    fn the_table_has_a_row_for_every_metric() {
        let catalogue = Catalogue::new(&[&[SEEN.metric(), TOOK.metric()]]).unwrap();
        let table = catalogue.markdown();
        assert_eq!(table.lines().count(), 2 + 2 + process::METRICS.len());
        assert!(table.contains("| `headroom_test_seen_total` | counter | `path`, `result` | Things seen. |"));
        assert!(table.contains("| `headroom_test_took_seconds` | histogram (0.1, 1) | `path` | How long. |"));
    }

    #[test]
    fn a_name_declared_twice_is_refused() {
        let error = Catalogue::new(&[&[DEPTH.metric()], &[DEPTH.metric()]]).unwrap_err();
        assert_eq!(error.to_string(), "metric headroom_test_depth is declared twice");
    }

    #[rstest]
    #[case(Kind::Counter, "headroom_a", Unit::Count, &[], "the name of a counter ends in _total")]
    #[case(Kind::Gauge, "headroom_a_total", Unit::Count, &[], "only the name of a counter ends in _total")]
    #[case(Kind::Gauge, "other_a", Unit::Count, &[], "a name is headroom_ and lower-case words joined by underscores")]
    #[case(Kind::Gauge, "headroom_a", Unit::Bytes, &[], "a name ends in its unit")]
    #[case(Kind::Counter, "headroom_a_total", Unit::Seconds, &[], "a name ends in its unit")]
    #[case(Kind::Gauge, "headroom_a", Unit::Count, &["x", "x"], "labels differ from each other")]
    #[case(Kind::Gauge, "headroom_a", Unit::Count, &["le"], "labels are lower-case words, and le and quantile are reserved")]
    #[case(Kind::Histogram, "headroom_a", Unit::Count, &[], "a histogram has finite, ascending buckets")]
    fn a_declaration_that_breaks_a_rule_is_named(
        #[case] kind: Kind,
        #[case] name: &'static str,
        #[case] unit: Unit,
        #[case] labels: &'static [&'static str],
        #[case] rule: &str,
    ) {
        let metric = Metric {
            name,
            kind,
            unit,
            labels,
            help: "Help.",
            buckets: &[],
            cells: None,
        };
        assert_eq!(broken_rule(&metric), Some(rule));
    }
}
