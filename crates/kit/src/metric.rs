//! Metrics declared as statics: each is the only place that spells the metric's name, labels and buckets.
//!
//! ```
//! use headroom_kit::metric::{Catalogue, Counter, Unit};
//!
//! headroom_kit::metrics! {
//!     /// Reviews answered.
//!     pub static REVIEWS: Counter<2> =
//!         Counter::new("headroom_webhook_reviews_total", Unit::Count, &["endpoint", "result"], "Reviews answered.");
//! }
//!
//! let catalogue = Catalogue::new(&[METRICS])?;
//! REVIEWS.with(["mutate-pod", "allowed"]).increment(1);
//! assert!(catalogue.markdown().contains("headroom_webhook_reviews_total"));
//! # Ok::<(), headroom_kit::metric::MetricError>(())
//! ```
//!
//! Label values are `&'static str`: request data cannot become a label value, so the number of series is bounded by
//! the code.

pub mod process;

mod catalogue;
mod counted;
mod handles;

use std::{
    fmt,
    sync::atomic::{AtomicBool, Ordering},
};

use metrics::{Key, Label, Level, Metadata, with_recorder};

use self::handles::Handles;
pub use self::{
    catalogue::{Catalogue, Exporter, MetricError},
    counted::{Cells, Counted, CountedHistogram, CountedTime, MOST_BUCKETS},
};

/// Declares the metrics of a module and `METRICS`, their list for a [`Catalogue`], so that every declared metric is
/// served.
#[macro_export]
macro_rules! metrics {
    ($($(#[$attribute:meta])* $visibility:vis static $name:ident: $family:ty = $value:expr;)+) => {
        $($(#[$attribute])* $visibility static $name: $family = $value;)+

        /// Every metric declared in this block.
        pub static METRICS: &[&$crate::metric::Metric] = &[$($name.metric()),+];
    };
}

/// Type of a metric in Prometheus.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Kind {
    /// Only increases; a restart resets it to 0.
    Counter,
    /// May increase and decrease, such as a queue length.
    Gauge,
    /// Counts observations in buckets with upper bounds.
    Histogram,
}

/// Unit of the value. Every unit except `Count` is also the suffix of the metric's name.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Unit {
    /// A count, or a state that is 0 or 1.
    Count,
    /// Seconds, or seconds since the Unix epoch if the name contains `timestamp`.
    Seconds,
    /// Bytes; the name ends in `_bytes`.
    Bytes,
    /// A fraction; 1 is the whole.
    Ratio,
    /// CPU cores; the name ends in `_cores`.
    Cores,
}

/// Description of one metric, without the type of its handles.
#[derive(Clone, Copy, Debug)]
pub struct Metric {
    /// Full name as scraped, with unit suffix.
    pub name: &'static str,
    /// Type of the metric in Prometheus.
    pub kind: Kind,
    /// Unit of the metric's value.
    pub unit: Unit,
    /// Label names, in the order of the label values.
    pub labels: &'static [&'static str],
    /// Help text: one sentence with a full stop.
    pub help: &'static str,
    /// Upper bounds of the buckets, ascending, without +Inf; empty unless a histogram.
    pub buckets: &'static [f64],
    /// Storage of the observations of a [`CountedHistogram`] or [`CountedTime`]; else `None`.
    pub cells: Option<&'static Cells>,
}

/// A metric with `N` labels whose handles are of type `K`.
pub struct Family<K, const N: usize> {
    metric: Metric,
    handles: Handles<K, N>,
}

/// Counter with `N` labels, declared as a static.
pub type Counter<const N: usize = 0> = Family<metrics::Counter, N>;
/// Gauge with `N` labels, declared as a static.
pub type Gauge<const N: usize = 0> = Family<metrics::Gauge, N>;
/// Histogram with `N` labels, declared as a static.
pub type Histogram<const N: usize = 0> = Family<metrics::Histogram, N>;

static METADATA: Metadata<'static> = Metadata::new(module_path!(), Level::INFO, Some(module_path!()));

impl Unit {
    /// Name suffix of this unit (before `_total`); empty for `Count`.
    pub const fn suffix(self) -> &'static str {
        match self {
            Self::Count => "",
            Self::Seconds => "_seconds",
            Self::Bytes => "_bytes",
            Self::Ratio => "_ratio",
            Self::Cores => "_cores",
        }
    }
}

/// True after the exporter is installed: handles made before would record to nothing.
static IS_INSTALLED: AtomicBool = AtomicBool::new(false);

impl<K, const N: usize> fmt::Debug for Family<K, N> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_tuple("Family").field(&self.metric).finish()
    }
}

impl<K: Clone, const N: usize> Family<K, N> {
    const fn declare(metric: Metric) -> Self {
        Self {
            metric,
            handles: Handles::new(),
        }
    }

    /// Returns the cached handle of these label values, or the one that `find` looks up.
    fn handle(&self, values: [&'static str; N], find: impl Fn(&Key) -> K) -> K {
        let find = || find(&self.key(values));
        if IS_INSTALLED.load(Ordering::Relaxed) {
            self.handles.get(values, find)
        } else {
            find()
        }
    }

    /// Description for catalogues, alerts and dashboards.
    pub const fn metric(&self) -> &Metric {
        &self.metric
    }

    fn key(&self, values: [&'static str; N]) -> Key {
        let labels: Vec<Label> = self
            .metric
            .labels
            .iter()
            .zip(values)
            .map(|(name, value)| Label::from_static_parts(name, value))
            .collect();
        Key::from_parts(self.metric.name, labels)
    }
}

impl<const N: usize> Counter<N> {
    /// Declares a counter; the name must end in `_total`.
    pub const fn new(
        name: &'static str,
        unit: Unit,
        labels: &'static [&'static str; N],
        help: &'static str,
    ) -> Self {
        Self::declare(Metric {
            name,
            kind: Kind::Counter,
            unit,
            labels,
            help,
            buckets: &[],
            cells: None,
        })
    }

    /// Returns the counter with these label values.
    pub fn with(&self, values: [&'static str; N]) -> metrics::Counter {
        self.handle(values, |key| {
            with_recorder(|recorder| recorder.register_counter(key, &METADATA))
        })
    }
}

impl<const N: usize> Gauge<N> {
    /// Declares a gauge with its unit and label names.
    pub const fn new(
        name: &'static str,
        unit: Unit,
        labels: &'static [&'static str; N],
        help: &'static str,
    ) -> Self {
        Self::declare(Metric {
            name,
            kind: Kind::Gauge,
            unit,
            labels,
            help,
            buckets: &[],
            cells: None,
        })
    }

    /// Returns the gauge with these label values.
    pub fn with(&self, values: [&'static str; N]) -> metrics::Gauge {
        self.handle(values, |key| {
            with_recorder(|recorder| recorder.register_gauge(key, &METADATA))
        })
    }
}

impl<const N: usize> Histogram<N> {
    /// Declares a histogram; `buckets` are upper bounds, ascending, without +Inf.
    pub const fn new(
        name: &'static str,
        unit: Unit,
        labels: &'static [&'static str; N],
        help: &'static str,
        buckets: &'static [f64],
    ) -> Self {
        Self::declare(Metric {
            name,
            kind: Kind::Histogram,
            unit,
            labels,
            help,
            buckets,
            cells: None,
        })
    }

    /// Returns the histogram with these label values.
    pub fn with(&self, values: [&'static str; N]) -> metrics::Histogram {
        self.handle(values, |key| {
            with_recorder(|recorder| recorder.register_histogram(key, &METADATA))
        })
    }
}
