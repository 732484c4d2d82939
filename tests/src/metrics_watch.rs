//! [`NumbersWatch`] checks a program's metrics all the time: counters never fall, and every value is a number. Its user
//! is `tests/kernel/churn.rs`.

use std::{collections::BTreeMap, net::SocketAddr, time::Duration};

use headroom_testbed::programs::get;
use tokio::{sync::oneshot, task::JoinHandle, time::sleep};

/// How often the page is read.
const READ_EVERY: Duration = Duration::from_millis(250);

/// The values of one page, to be compared with the next.
#[derive(Debug, Default)]
struct Numbers(BTreeMap<String, f64>);

/// Reads the metrics of a program again and again, until it is asked what it found.
#[derive(Debug)]
pub struct NumbersWatch {
    stop: oneshot::Sender<()>,
    found: JoinHandle<(u32, Vec<String>)>,
}

impl NumbersWatch {
    /// Begins; the program's admin port is there.
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

    /// Makes sure that several pages were read and nothing was wrong with any.
    pub async fn end(self) {
        self.stop.send(()).expect("it reads on");
        let (pages, wrong) = self.found.await.expect("its end");
        assert!(pages > 2, "{pages} pages say nothing");
        assert_eq!(wrong, [""; 0]);
    }
}

impl Numbers {
    /// Takes the next page; what is wrong with it.
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
