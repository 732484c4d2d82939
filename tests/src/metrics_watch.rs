//! [`NumbersWatch`] polls a program's metrics: counters never fall, and every value is a number. Used by
//! `tests/kernel/churn.rs`.

use std::{collections::BTreeMap, net::SocketAddr, time::Duration};

use headroom_testbed::programs::get;
use tokio::{sync::oneshot, task::JoinHandle, time::sleep};

/// Poll interval of the metrics.
const READ_EVERY: Duration = Duration::from_millis(250);

/// Values of one page, for comparison with the next.
#[derive(Debug, Default)]
struct Numbers(BTreeMap<String, f64>);

/// Polls the metrics of a program until [`Self::end`].
#[derive(Debug)]
pub struct NumbersWatch {
    stop: oneshot::Sender<()>,
    found: JoinHandle<(u32, Vec<String>)>,
}

impl NumbersWatch {
    /// Starts; the program's admin port must already answer.
    pub fn begin(admin: SocketAddr) -> Self {
        let (stop, mut stopped) = oneshot::channel();
        let found = tokio::spawn(async move {
            let (mut numbers, mut pages, mut wrong) = (Numbers::default(), 0, Vec::new());
            while stopped.try_recv().is_err() {
                if let Ok((_, page)) = get(admin, "/metrics").await {
                    wrong.extend(numbers.check_page(&String::from_utf8_lossy(&page)));
                    pages += 1;
                }
                sleep(READ_EVERY).await;
            }
            (pages, wrong)
        });
        Self { stop, found }
    }

    /// Checks that several pages were read and none was wrong.
    pub async fn end(self) {
        self.stop.send(()).expect("it reads on");
        let (pages, wrong) = self.found.await.expect("its end");
        assert!(pages > 2, "only {pages} pages were read");
        assert_eq!(wrong, [""; 0]);
    }
}

impl Numbers {
    /// Compares the next page with this one; returns its errors.
    fn check_page(&mut self, page: &str) -> Vec<String> {
        let mut wrong = Vec::new();
        let mut counters = Vec::new();
        for line in page.lines() {
            if let Some(rest) = line.strip_prefix("# TYPE ") {
                let mut words = rest.split(' ');
                if let (Some(name), Some("counter" | "histogram")) = (words.next(), words.next()) {
                    counters.push(name);
                }
            }
            let Some((series, text)) = line.rsplit_once(' ').filter(|_| !line.starts_with('#')) else {
                continue;
            };
            let Some(value) = text.parse::<f64>().ok().filter(|value| value.is_finite()) else {
                wrong.push(format!("no number: {line}"));
                continue;
            };
            let before = self.0.insert(series.to_owned(), value);
            let is_counter = counters.iter().any(|name| series.starts_with(name));
            if let Some(before) = before.filter(|before| is_counter && value < *before) {
                wrong.push(format!("fell from {before}: {line}"));
            }
        }
        wrong
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_counter_that_falls_and_what_is_no_number_are_found() {
        let page = |total: &str, gauge: &str| {
            format!("# TYPE a_total counter\na_total{{b=\"c d\"}} {total}\n# TYPE e gauge\ne {gauge}\n")
        };
        let mut numbers = Numbers::default();
        assert_eq!(numbers.check_page(&page("3", "5")), [""; 0]);
        assert_eq!(numbers.check_page(&page("3", "4.5")), [""; 0]);
        assert_eq!(
            numbers.check_page(&page("2", "NaN")),
            ["fell from 3: a_total{b=\"c d\"} 2", "no number: e NaN"]
        );
    }
}
