import sqlite3
import tempfile
import unittest
from datetime import date

from shelf.store import MIGRATIONS, ShelfError, Store


class Lending(unittest.TestCase):
    def setUp(self) -> None:
        self.now = date(2026, 2, 20)
        self.store = Store(":memory:", lambda: self.now)
        self.drill = self.store.add("Hammer drill", "ada")

    def tearDown(self) -> None:
        self.store.close()

    def test_a_loan_without_an_end_is_for_14_days(self) -> None:
        self.assertEqual(self.store.lend(self.drill, "bob").until, "2026-03-06")

    def test_what_is_lent_is_not_lent_again(self) -> None:
        self.store.lend(self.drill, "bob", date(2026, 3, 1))
        with self.assertRaisesRegex(ShelfError, "is with bob until 2026-03-01"):
            self.store.lend(self.drill, "eve")

    def test_what_is_back_is_in_its_history(self) -> None:
        self.store.lend(self.drill, "bob")
        self.now = date(2026, 2, 24)
        self.store.back(self.drill)
        (loan,) = self.store.history(self.drill)
        self.assertEqual((loan.since, loan.back, loan.who), ("2026-02-20", "2026-02-24", "bob"))

    def test_a_newer_shelf_is_refused(self) -> None:
        with tempfile.TemporaryDirectory() as folder:
            path = f"{folder}/shelf.db"
            keeper = sqlite3.connect(path)
            keeper.execute(f"PRAGMA user_version = {len(MIGRATIONS) + 1}")
            keeper.close()
            with self.assertRaisesRegex(ShelfError, "newer version"):
                Store(path)


if __name__ == "__main__":
    unittest.main()
