//! `strftime`.

use std::time::{SystemTime, UNIX_EPOCH};

use super::error::{Error, Result};

const MONTHS: [&str; 12] = [
    "January",
    "February",
    "March",
    "April",
    "May",
    "June",
    "July",
    "August",
    "September",
    "October",
    "November",
    "December",
];
const DAYS: [&str; 7] = ["Sunday", "Monday", "Tuesday", "Wednesday", "Thursday", "Friday", "Saturday"];

/// A date and time of day in UTC.
struct Moment {
    year: u64,
    month: u64,
    day: u64,
    /// Day of the year, counted from zero.
    year_day: u64,
    /// Day of the week, Sunday being zero.
    week_day: u64,
    hour: u64,
    minute: u64,
    second: u64,
}

impl Moment {
    fn of(time: SystemTime) -> Self {
        let seconds = time.duration_since(UNIX_EPOCH).map_or(0, |elapsed| elapsed.as_secs());
        let (days, second) = (seconds / 86_400, seconds % 86_400);
        let (year, month, day) = civil(days);
        let leap = year % 4 == 0 && (year % 100 != 0 || year % 400 == 0);
        let before = [0, 31, 59, 90, 120, 151, 181, 212, 243, 273, 304, 334];
        let year_day = before[(month as usize - 1) % 12] + day - 1 + u64::from(leap && month > 2);
        let (hour, minute) = (second / 3_600, second / 60 % 60);
        Self { year, month, day, year_day, week_day: (days + 4) % 7, hour, minute, second: second % 60 }
    }

    /// The text of a field.
    fn field(&self, field: char) -> Option<String> {
        let month_name = MONTHS[(self.month as usize - 1) % 12];
        let day_name = DAYS[self.week_day as usize % 7];
        let all = |fields: &str| -> Option<String> {
            fields
                .chars()
                .map(|c| if c.is_ascii_alphabetic() { self.field(c) } else { Some(c.into()) })
                .collect()
        };
        Some(match field {
            'd' => format!("{:02}", self.day),
            'e' => format!("{:2}", self.day),
            'm' => format!("{:02}", self.month),
            'y' => format!("{:02}", self.year % 100),
            'Y' => self.year.to_string(),
            'C' => format!("{:02}", self.year / 100),
            'j' => format!("{:03}", self.year_day + 1),
            'b' | 'h' => month_name[..3].to_owned(),
            'B' => month_name.to_owned(),
            'a' => day_name[..3].to_owned(),
            'A' => day_name.to_owned(),
            'u' => ((self.week_day + 6) % 7 + 1).to_string(),
            'w' => self.week_day.to_string(),
            'U' => format!("{:02}", (self.year_day + 7 - self.week_day) / 7),
            'W' => format!("{:02}", (self.year_day + 7 - (self.week_day + 6) % 7) / 7),
            'H' => format!("{:02}", self.hour),
            'I' => format!("{:02}", (self.hour + 11) % 12 + 1),
            'p' => if self.hour < 12 { "AM" } else { "PM" }.to_owned(),
            'M' => format!("{:02}", self.minute),
            'S' => format!("{:02}", self.second),
            'F' => all("Y-m-d")?,
            'T' | 'X' => all("H:M:S")?,
            'R' => all("H:M")?,
            'D' | 'x' => all("m/d/y")?,
            'c' => all("a b e H:M:S Y")?,
            'r' => all("I:M:S p")?,
            // `datetime.now()` knows no time zone.
            'z' | 'Z' => String::new(),
            'n' => "\n".to_owned(),
            't' => "\t".to_owned(),
            '%' => "%".to_owned(),
            _ => return None,
        })
    }
}

/// `datetime.strftime` in the C locale, for a time in UTC.
///
/// # Errors
/// If a field is unfinished or not supported.
pub(super) fn strftime(format: &str, time: SystemTime) -> Result<String> {
    let moment = Moment::of(time);
    let mut text = String::new();
    let mut chars = format.chars();
    while let Some(c) = chars.next() {
        if c != '%' {
            text.push(c);
            continue;
        }
        let mut name = chars.next().ok_or_else(|| Error::unsupported("unfinished date field: %"))?;
        let bare = name == '-';
        if bare {
            name = chars.next().ok_or_else(|| Error::unsupported("unfinished date field: %-"))?;
        }
        let field = moment.field(name);
        let field = field.ok_or_else(|| {
            Error::unsupported(format!("date field: %{}{name}", if bare { "-" } else { "" }))
        })?;
        let short = field.trim_start_matches(['0', ' ']);
        text += match (bare, short) {
            (true, "") => "0",
            (true, short) if field.len() > 1 && name != 'Y' => short,
            _ => &field,
        };
    }
    Ok(text)
}

/// Year, month and day of the days since 1970-01-01, by Howard Hinnant's `civil_from_days`
/// (<https://howardhinnant.github.io/date_algorithms.html>).
fn civil(days: u64) -> (u64, u64, u64) {
    let days = days + 719_468;
    let (era, day_of_era) = (days / 146_097, days % 146_097);
    let year_of_era = (day_of_era - day_of_era / 1_460 + day_of_era / 36_524 - day_of_era / 146_096) / 365;
    let day_of_year = day_of_era - (365 * year_of_era + year_of_era / 4 - year_of_era / 100);
    let shifted_month = (5 * day_of_year + 2) / 153;
    let day = day_of_year - (153 * shifted_month + 2) / 5 + 1;
    let month = if shifted_month < 10 { shifted_month + 3 } else { shifted_month - 9 };
    (era * 400 + year_of_era + u64::from(month <= 2), month, day)
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use super::*;

    fn check(seconds: u64, format: &str, expect: &str) {
        let time = UNIX_EPOCH + Duration::from_secs(seconds);
        assert_eq!(strftime(format, time).as_deref(), Ok(expect), "{format}");
    }

    #[test]
    fn dates_print_as_strftime_prints_them() {
        check(0, "%A %d %B %Y %H:%M:%S", "Thursday 01 January 1970 00:00:00");
        check(951_827_696, "%a %d %b %y %I:%M %p", "Tue 29 Feb 00 12:34 PM");
        check(1_735_689_599, "%Y-%m-%d %H:%M:%S%%", "2024-12-31 23:59:59%");
        check(
            1_735_689_599,
            "%j %U %W %u %w %F %T %D %R %C",
            "366 52 53 2 2 2024-12-31 23:59:59 12/31/24 23:59 20",
        );
        check(951_827_696, "%-d %-m %-I %-y %e %c%z", "29 2 12 0 29 Tue Feb 29 12:34:56 2000");
        check(0, "%-d/%-m %-H|%e", "1/1 0| 1");
    }

    #[test]
    fn unknown_fields_are_errors() {
        assert_eq!(strftime("%", UNIX_EPOCH), Err(Error::unsupported("unfinished date field: %")));
        assert_eq!(strftime("%Q", UNIX_EPOCH), Err(Error::unsupported("date field: %Q")));
    }
}
