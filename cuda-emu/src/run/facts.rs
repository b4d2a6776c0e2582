//! What was recorded of a run: rows of numbers by key, and the lines of a file that have them.

use std::collections::HashMap;

/// A row's key: the kind of fact, then what distinguishes it.
pub(super) type Key = Vec<String>;
/// A row's numbers.
pub(super) type Numbers = [u64; 4];

/// Rows in the order in which their keys first came. Rows of one key are added up, so that a file may have any number of
/// lines for a row: what a process appends survives however it ends.
#[derive(Debug, Default, Clone)]
pub(super) struct Facts {
    places: HashMap<Key, usize>,
    rows: Vec<(Key, Numbers)>,
}

impl Facts {
    /// Adds numbers to a row.
    pub(super) fn add(&mut self, key: &[&str], numbers: Numbers) {
        let key: Key = key.iter().map(|&word| word.to_owned()).collect();
        let next = self.rows.len();
        match self.places.get(&key) {
            Some(&place) => {
                if let Some((_, known)) = self.rows.get_mut(place) {
                    for (known, more) in known.iter_mut().zip(numbers) {
                        *known = known.saturating_add(more);
                    }
                }
            }
            None => {
                self.places.insert(key.clone(), next);
                self.rows.push((key, numbers));
            }
        }
    }

    /// Returns the rows.
    pub(super) fn rows(&self) -> impl Iterator<Item = (&[String], Numbers)> {
        self.rows.iter().map(|(key, numbers)| (key.as_slice(), *numbers))
    }

    /// Adds the rows of a text. Lines that are cut off or damaged are left out.
    pub(super) fn read(&mut self, text: &str) {
        for line in text.split_inclusive('\n').filter_map(|line| line.strip_suffix('\n')) {
            if let Some((key, numbers)) = parse(line) {
                let key: Vec<&str> = key.iter().map(String::as_str).collect();
                self.add(&key, numbers);
            }
        }
    }

    /// Returns all rows as lines.
    pub(super) fn text(&self) -> String {
        self.rows.iter().map(|(key, numbers)| line(key, *numbers)).collect()
    }
}

/// Returns the line of a row: the numbers, then the key, with tabs between.
pub(super) fn line<S: AsRef<str>>(key: &[S], numbers: Numbers) -> String {
    let mut line = numbers.map(|number| number.to_string()).join("\t");
    for word in key {
        line.push('\t');
        for character in word.as_ref().chars() {
            match character {
                '\\' => line.push_str("\\\\"),
                '\t' => line.push_str("\\t"),
                '\n' => line.push_str("\\n"),
                other => line.push(other),
            }
        }
    }
    line.push('\n');
    line
}

/// Reads a line without its end.
fn parse(line: &str) -> Option<(Key, Numbers)> {
    let mut words = line.split('\t');
    let mut numbers = Numbers::default();
    for number in &mut numbers {
        *number = words.next()?.parse().ok()?;
    }
    let key = words.map(plain).collect::<Option<Key>>()?;
    (!key.is_empty()).then_some((key, numbers))
}

/// Returns a word without its escapes.
fn plain(word: &str) -> Option<String> {
    let mut plain = String::with_capacity(word.len());
    let mut characters = word.chars();
    while let Some(character) = characters.next() {
        plain.push(match character {
            '\\' => match characters.next()? {
                '\\' => '\\',
                't' => '\t',
                'n' => '\n',
                _ => return None,
            },
            other => other,
        });
    }
    Some(plain)
}

#[cfg(test)]
mod tests {
    use super::{Facts, line};

    #[test]
    fn lines_are_read_as_they_were_written() {
        let mut facts = Facts::default();
        let keys: [&[&str]; 5] =
            [&["kernel", "a\tb"], &["kernel", "a", "b"], &["x\\", "n\n\n"], &["\\t", "é"], &[""]];
        for (at, key) in (1..).zip(keys) {
            facts.add(key, [at, 0, u64::MAX, 5]);
            facts.add(key, [at, 7, 1, 0]);
        }
        let mut read = Facts::default();
        read.read(&facts.text());
        let rows: Vec<_> = read.rows().collect();
        assert_eq!(rows, facts.rows().collect::<Vec<_>>());
        assert_eq!(rows[0], (&["kernel".to_owned(), "a\tb".to_owned()][..], [2, 7, u64::MAX, 5]));
        // Again: the numbers are added.
        read.read(&facts.text());
        assert_eq!(read.rows().next().map(|row| row.1), Some([4, 14, u64::MAX, 10]));
    }

    #[test]
    fn damaged_lines_are_left_out() {
        let right = line(&["a"], [1, 2, 3, 4]);
        for cut in 0..right.len() {
            let mut facts = Facts::default();
            facts.read(&right[..cut]);
            assert_eq!(facts.rows().count(), 0, "{cut}");
        }
        for wrong in
            ["\n", "1\t2\t3\t4\n", "1\t2\t3\tx\ta\n", "1\t2\t3\t4\ta\\\n", "1\t2\t3\t4\t\\q\n"]
        {
            let mut facts = Facts::default();
            facts.read(wrong);
            facts.read(&right);
            assert_eq!(facts.rows().count(), 1, "{wrong:?}");
        }
    }
}
