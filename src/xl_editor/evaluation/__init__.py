"""What measures: BLEU, style accuracy, fluency, and the tables. Nothing here knows how an edit is made."""
