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
//! Label values are `&'static str`: a value that comes from a request cannot become a label, so the number of
//! series has a bound that the code shows.

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

/// Declares the metrics of a module, and `METRICS`, the list of them for a [`Catalogue`]: a metric
/// that is declared is one that is served.
#[macro_export]
macro_rules! metrics {
    ($($(#[$attribute:meta])* $visibility:vis static $name:ident: $family:ty = $value:expr;)+) => {
        $($(#[$attribute])* $visibility static $name: $family = $value;)+

        /// Every metric that is declared here.
        pub static METRICS: &[&$crate::metric::Metric] = &[$($name.metric()),+];
    };
}

/// What a metric does over time.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Kind {
    /// Only grows; reset by a restart.
    Counter,
    /// Goes up and down.
    Gauge,
    /// Counts observations in buckets.
    Histogram,
}

/// What one unit of the value is. Every unit but `Count` is also the end of the metric's name.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Unit {
    /// A number of things, or a state that is 0 or 1.
    Count,
    /// Seconds, or seconds since the Unix epoch when the name says `timestamp`.
    Seconds,
    /// Bytes.
    Bytes,
    /// A quotient; 1 is the whole.
    Ratio,
    /// CPU cores.
    Cores,
}

/// The description of one metric, without the type of its handles.
#[derive(Clone, Copy, Debug)]
pub struct Metric {
    /// The full name as scraped.
    pub name: &'static str,
    /// What it does over time.
    pub kind: Kind,
    /// What its value counts.
    pub unit: Unit,
    /// Label names, in the order in which values are given.
    pub labels: &'static [&'static str],
    /// One sentence for people.
    pub help: &'static str,
    /// Upper bounds, ascending, without +Inf; empty unless a histogram.
    pub buckets: &'static [f64],
    /// Where its observations are, if it is a [`CountedHistogram`] or [`CountedTime`].
    pub cells: Option<&'static Cells>,
}

/// A metric with `N` labels whose handles are of type `K`.
pub struct Family<K, const N: usize> {
    metric: Metric,
    handles: Handles<K, N>,
}

/// A counter with `N` labels.
pub type Counter<const N: usize = 0> = Family<metrics::Counter, N>;
/// A gauge with `N` labels.
pub type Gauge<const N: usize = 0> = Family<metrics::Gauge, N>;
/// A histogram with `N` labels.
pub type Histogram<const N: usize = 0> = Family<metrics::Histogram, N>;

static METADATA: Metadata<'static> = Metadata::new(module_path!(), Level::INFO, Some(module_path!()));

impl Unit {
    /// The ending that a name of this unit carries (before `_total`), empty for plain counts.
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

/// True once the process records to its exporter: from then on a handle stays good.
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

    /// The handle with these label values, kept from before or looked up by `find`.
    fn handle(&self, values: [&'static str; N], find: impl Fn(&Key) -> K) -> K {
        let find = || find(&self.key(values));
        if IS_INSTALLED.load(Ordering::Relaxed) {
            self.handles.get(values, find)
        } else {
            find()
        }
    }

    /// The description, for catalogues, alerts and dashboards.
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
    /// Declares a counter; the name ends in `_total`.
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

    /// The counter with these label values.
    pub fn with(&self, values: [&'static str; N]) -> metrics::Counter {
        self.handle(values, |key| {
            with_recorder(|recorder| recorder.register_counter(key, &METADATA))
        })
    }
}

impl<const N: usize> Gauge<N> {
    /// Declares a gauge.
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

    /// The gauge with these label values.
    pub fn with(&self, values: [&'static str; N]) -> metrics::Gauge {
        self.handle(values, |key| {
            with_recorder(|recorder| recorder.register_gauge(key, &METADATA))
        })
    }
}

impl<const N: usize> Histogram<N> {
    /// Declares a histogram with the upper bounds of its buckets, ascending, without +Inf.
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

    /// The histogram with these label values.
    pub fn with(&self, values: [&'static str; N]) -> metrics::Histogram {
        self.handle(values, |key| {
            with_recorder(|recorder| recorder.register_histogram(key, &METADATA))
        })
    }
}
