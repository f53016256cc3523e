// Texts to begin with, one for each thing that the page can do.

export const EXAMPLES = [
  ["Something is missing", "The food was and the service great. We will come back!"],
  ["Something does not belong", "The food was great. My dog is purple seven. We will be back soon."],
  ["Blanks to fill", "The [_] was [_] and the staff is friendly."],
  ["From negative to positive", "The waitress was rude and slow. The pizza was cold, and I will not come back!"],
  ["From positive to negative", "The staff is friendly and the pizza is delicious! I love this place."],
];
